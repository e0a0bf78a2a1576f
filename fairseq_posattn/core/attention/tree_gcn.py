"""A graph convolution over the dependency tree before the attention (Bastings et al. 2017).

    x_v + ReLU( sum over u of g_uv (W_d h_u + b_l) ),  g_uv = sigmoid(w_d . h_u + c_l)

u is the parent of word v, one of its children, or v itself. d is the direction of the edge (from
the parent, from a child, or self-loop), and l combines this direction with the relation. If a word
consists of several pieces, h_u is the mean over the pieces of word u. Each piece of v receives the
messages to v, but has its own self-loop. The end-of-sentence symbol has only a self-loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import PreAttention
from fairseq_posattn.core.option_values import option, some_layers
from fairseq_posattn.core.source_tree import SourceTree


@dataclass(frozen=True)
class TreeGcnOptions:
    layers: int = option(1, "number of stacked convolutions", some_layers())


class TreeGcn(PreAttention):
    """Applies graph convolutions over the labelled dependency edges to the layer's input."""

    name = "tree_gcn"
    paper = "Bastings et al. 2017, Eq. 5 to 8"
    Options = TreeGcnOptions
    options: TreeGcnOptions
    needs_tree = True
    needs_labels = ("relations",)
    examples = ("", "layers=2")
    neutral = ""
    equation = "x_v + ReLU(Σ_u g_uv (W_d h_u + b_l)), before the attention; u: parent, children, v"

    def make_parameters(self) -> None:
        self.convolutions = nn.ModuleList(
            TreeConvolution(self.shape.width, self.shape.relations)
            for _ in range(self.options.layers)
        )

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        x = x.transpose(0, 1)  # B T C
        for convolution in self.convolutions:
            change: Tensor = convolution(x, ctx.given_tree)
            x = x + torch.relu(change)
        return x.transpose(0, 1)


class TreeConvolution(nn.Module):
    """A convolution over the parent and the children of each word, with a self-loop."""

    def __init__(self, width: int, relations: int):
        super().__init__()
        self.loop = GatedEdges(width, 1)
        self.from_parent = GatedEdges(width, max(relations, 1))
        self.from_children = GatedEdges(width, max(relations, 1))

    def forward(self, x: Tensor, tree: SourceTree) -> Tensor:
        """Return the sum of the messages to each piece, of shape (B, T, C), before the ReLU."""
        labels = tree.labels
        assert labels is not None  # needs_labels
        relations = labels[0]
        means, has_pieces = means_of_words(tree, x)  # B W C, B W
        parents = tree.parents[..., None].expand_as(means)  # B W C
        own = torch.arange(tree.parents.size(1), device=x.device)
        has_parent = (tree.parents != own)[..., None]
        down = self.from_parent(means.gather(1, parents), relations)
        down = down * (has_parent & has_pieces.gather(1, tree.parents)[..., None])
        up = self.from_children(means, relations) * (has_parent & has_pieces[..., None])
        of_words = down.scatter_add(1, parents, up.type_as(down))
        inside = tree.words.clamp(0, means.size(1) - 1)[..., None].expand_as(x)
        of_pieces = of_words.gather(1, inside) * tree.is_word[..., None]
        summed: Tensor = of_pieces + self.loop(x, torch.zeros_like(tree.words))
        return summed


class GatedEdges(nn.Module):
    """Computes messages g (W h + b_l), g = sigmoid(w . h + c_l), along one direction."""

    def __init__(self, width: int, labels: int):
        super().__init__()
        self.map = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 1, bias=False)
        self.label_bias = nn.Parameter(torch.zeros(labels, width))
        self.gate_bias = nn.Parameter(torch.zeros(labels))
        nn.init.xavier_uniform_(self.map.weight)
        nn.init.xavier_uniform_(self.gate.weight)

    def forward(self, h: Tensor, label: Tensor) -> Tensor:
        """Return the messages from states h, (B, W, C), along edges with labels, (B, W)."""
        gate = torch.sigmoid(self.gate(h).squeeze(-1) + self.gate_bias[label])
        mapped: Tensor = self.map(h)
        return gate[..., None] * (mapped + self.label_bias[label])


def means_of_words(tree: SourceTree, x: Tensor) -> tuple[Tensor, Tensor]:
    """Average x over the pieces of each word; also return a mask of the words that have pieces.

    Words that were truncated have no pieces. The shapes are (B, T, C) for x, (B, W, C) for the
    means and (B, W) for the mask.
    """
    words = tree.parents.size(1)
    index = tree.words.masked_fill(~tree.is_word, words)  # an extra row for all other pieces
    zeros = x.new_zeros(x.size(0), words + 1, x.size(2))
    sums = zeros.scatter_add(1, index[..., None].expand_as(x), x)[:, :words]
    ones = tree.is_word.to(x.dtype)
    counts = x.new_zeros(x.size(0), words + 1).scatter_add(1, index, ones)[:, :words]
    return sums / counts.clamp(min=1)[..., None], counts > 0

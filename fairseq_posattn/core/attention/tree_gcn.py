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
        count = max(self.shape.relations, 1)
        key = (TreeGcn, count, x.dtype)
        edges = ctx.cached(key, lambda: Edges.of(ctx.given_tree, count, x.dtype))
        x = x.transpose(0, 1)  # B T C
        for convolution in self.convolutions:
            change: Tensor = convolution(x, edges)
            x = x + torch.relu(change)
        return x.transpose(0, 1)


@dataclass(frozen=True)
class Edges:
    """The trees of a batch as matrices, so that look-ups and sums over words are matrix products.

    On a GPU, the backward pass of a look-up would add up gradients of the same row sequentially.
    Words that were truncated have no pieces and no edges.
    """

    means: Tensor  # B W T: averages the pieces of each word
    words: Tensor  # B T W: 1 at the word of each piece
    parents: Tensor  # B W W: 1 at the parent of each word
    labels: Tensor  # B W L: 1 at the relation of each word that has a parent

    @classmethod
    def of(cls, tree: SourceTree, labels: int, dtype: torch.dtype) -> Edges:
        assert tree.labels is not None  # needs_labels
        own = torch.arange(max(tree.parents.size(1), labels), device=tree.parents.device)
        relation, own_word = own[:labels], own[: tree.parents.size(1)]
        words = (tree.words[..., None] == own_word) & tree.is_word[..., None]
        counts = words.sum(dim=1)  # B W
        with_pieces = (counts[:, :, None] > 0) & (counts[:, None] > 0)
        parents = (tree.parents[..., None] == own_word) & with_pieces
        parents = parents & (own_word[:, None] != own_word)  # the root is its own parent
        of_relation = (tree.labels[0][..., None] == relation) & parents.any(dim=-1, keepdim=True)
        means = words.transpose(1, 2) / counts.clamp(min=1)[..., None]
        return cls(means.to(dtype), words.to(dtype), parents.to(dtype), of_relation.to(dtype))


class TreeConvolution(nn.Module):
    """A convolution over the parent and the children of each word, with a self-loop."""

    def __init__(self, width: int, relations: int):
        super().__init__()
        self.loop = GatedEdges(width, 1)
        self.from_parent = GatedEdges(width, max(relations, 1))
        self.from_children = GatedEdges(width, max(relations, 1))

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        """Return the sum of the messages to each piece, of shape (B, T, C), before the ReLU."""
        means = edges.means @ x  # B W C
        down = self.from_parent(edges.parents @ means, edges.labels)
        up = edges.parents.transpose(1, 2) @ self.from_children(means, edges.labels)
        summed: Tensor = edges.words @ (down + up) + self.loop(x, x.new_ones(1, 1, 1))
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

    def forward(self, h: Tensor, labels: Tensor) -> Tensor:
        """Return the messages from states h, (B, W, C), given one-hot labels, (B, W, L)."""
        gate = torch.sigmoid(self.gate(h) + labels @ self.gate_bias[:, None])
        messages: Tensor = gate * (self.map(h) + labels @ self.label_bias)
        return messages

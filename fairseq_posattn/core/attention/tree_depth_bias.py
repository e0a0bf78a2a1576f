"""A learnt bias for the depth of the key's word in the dependency tree.

The score becomes s_ij + w_h,c(j), where c(j) = min(depth(j), max) is the clipped depth of the word
of key j (Wang et al. 2019, Eq. 5). The end-of-sentence symbol has a separate bias. The bias depends
only on the key, so the mechanism can also be used in cross-attention, where only the source has a
tree. This mechanism is our own. For example, a head can learn to prefer the root of the
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.stages import ScoreBias
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.files.records import at_least


@dataclass(frozen=True)
class TreeDepthBiasOptions:
    max: int = option(8, "clip depths to this number of edges", at_least(1))


class TreeDepthBias(ScoreBias):
    """Adds a learnt bias for the depth of the key's word in the dependency tree to the scores."""

    name = "tree_depth_bias"
    paper = "ours; depths as in Wang et al. 2019, Eq. 5"
    Options = TreeDepthBiasOptions
    options: TreeDepthBiasOptions
    accepts_heads = True
    needs_tree = True
    banded = True
    cross_safe = True
    examples = ("", "max=1")
    neutral = ""
    equation = "b_ij = w_h,c(j), c(j) = min(depth(j), max)"

    def make_parameters(self) -> None:
        # The last entry is the bias of the end-of-sentence symbol.
        self.scores = nn.Parameter(torch.zeros(self.head_count, self.options.max + 2))

    def diagnostics(self) -> Mapping[str, Tensor]:
        names = [f"bias of depth {depth}" for depth in range(self.options.max + 1)]
        return dict(zip([*names, "bias of the end of sentence"], self.scores.T, strict=True))

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        tree = ctx.given_tree
        rows = ctx.cached((TreeDepthBias, self.options.max), lambda: self.rows(tree))  # B K
        return self.scores[:, rows].transpose(0, 1)[:, :, None]  # B H 1 K

    def rows(self, tree: SourceTree) -> Tensor:
        """Return the table row for each piece, of shape (B, K)."""
        clipped = tree.depths.clamp(0, self.options.max)
        return clipped.masked_fill(~tree.is_word, self.options.max + 1)

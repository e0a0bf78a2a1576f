"""Attention within a window of nearby keys (Yang et al. 2019, "Convolutional Self-Attention").

1D (Eq. 4 to 6): a query attends to the keys with |i - j| <= M/2, where size = M + 1.

2D (Eq. 7 to 9): a query of head h attends, in one softmax, to the keys and values in the window of
all existing heads from h - N/2 to h + N/2, where across = N + 1.

The mechanism has no parameters. In cross-attention, i is replaced with the diagonal c_i, and the 1D
window is equivalent to local-m of Luong et al. 2015 (Section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.attention.bands import Bands
from fairseq_posattn.core.attention.blockwise import takes, windowed_attention
from fairseq_posattn.core.attention.context import AttentionContext, is_compiling
from fairseq_posattn.core.attention.cross_context import ratio_of, ratio_option
from fairseq_posattn.core.attention.kernels import lowest
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use
from fairseq_posattn.core.attention.pipeline import allowed_pairs
from fairseq_posattn.core.attention.stages import FastPath, KeyExpansion, ScoreMask
from fairseq_posattn.core.option_values import option

# Blockwise computation is assumed to be faster for sentences of at least this length + 2·size. On a
# CPU (forward and backward pass, with batches of 4,096 pieces or one sentence), both methods are
# equally fast at 110 pieces with size=3, 130 with 11, 290 with 101 and 1,020 with 511; across=3
# gives similar results. The value for CUDA, where kernel launches are relatively expensive, was not
# measured.
LONG = {"cpu": 128, "cuda": 1024}


@dataclass(frozen=True)
class WindowOptions:
    size: int = option(11, "number of keys in the window, odd, with the query in the middle")
    across: int = option(
        1, "number of heads whose keys a query attends to, odd; 3 adds two neighbouring heads"
    )

    def __post_init__(self) -> None:
        for name, value in (("size", self.size), ("across", self.across)):
            if value < 1 or value % 2 == 0:
                raise ValueError(
                    f"{name}={value} is not an odd number above 0; use {max(1, value - 1)} or "
                    f"{max(3, value + 1)}, because a window has its query in the middle"
                )


@dataclass(frozen=True)
class CrossWindowOptions(WindowOptions):
    ratio: float = ratio_option()


class Window(ScoreMask, KeyExpansion, FastPath):
    """Restricts a query to nearby keys, of its own head or also of neighbouring heads."""

    name = "window"
    paper = "Yang et al. 2019, Eq. 4 to 9"
    Options = WindowOptions
    options: WindowOptions
    accepts_heads = True
    causal_safe = True
    banded = True
    cross_safe = True
    CrossOptions = CrossWindowOptions
    local = True
    examples = ("size=3", "size=1, across=3", "size=5, across=3")
    neutral = "size=1001"
    equation = "keys |i − j| ≤ M/2 of the heads h − N/2 … h + N/2; size = M + 1, across = N + 1"

    @classmethod
    def check(cls, options: WindowOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        if options.across > shape.heads:
            raise ValueError(
                f"across={options.across} is more than the {shape.heads} attention "
                f"head{'s' * (shape.heads > 1)} of the model; use a smaller odd number"
            )

    @property
    def copies(self) -> int:  # type: ignore[override]  # read-only: nobody assigns it
        """Return the number of heads to whose keys each head attends."""
        return self.options.across

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        reach, ratio = self.options.size // 2, ratio_of(self.options)
        return ctx.cached((Window, reach, ratio), lambda: ctx.from_diagonal(ratio).abs() <= reach)

    def limits(self, ctx: AttentionContext) -> tuple[int, Tensor | None] | None:
        only_own_heads = self.heads is None and self.options.across == 1
        return (self.options.size // 2, None) if only_own_heads else None

    def expand(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        neighbours = self.neighbours(k.device)  # N H
        exists = neighbours.T[None, :, None, :, None].expand(-1, -1, -1, -1, k.size(2))
        k, v = (across_heads(x, self.copies).flatten(2, 3) for x in (k, v))
        return k, v, exists.flatten(3)

    def neighbours(self, device: torch.device) -> Tensor:
        """Return a mask of shape (copies, H), True if head h attends to the keys of copy n.

        It is False if copy n belongs to a head that does not exist. Heads on which the mechanism
        does not act attend only to their own keys.
        """
        head = torch.arange(self.shape.heads, device=device)
        step = torch.arange(self.copies, device=device) - self.copies // 2
        exists = (head + step[:, None] >= 0) & (head + step[:, None] < self.shape.heads)
        if self.heads is not None:
            own = torch.stack([head == number for number in self.heads]).any(dim=0)
            exists &= own | (step == 0)[:, None]
        return exists

    def reach(self, ctx: AttentionContext) -> int | None:
        long = LONG.get(ctx.device.type, LONG["cuda"]) + 2 * self.options.size
        in_bands = self.heads is None and ctx.is_square and ctx.length >= long
        return self.options.size // 2 if in_bands else None

    def fast_path(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext, dropout: float
    ) -> Tensor | None:
        reach = self.reach(ctx)
        # torch.compile does not support a custom backward pass.
        if reach is None or is_compiling() or not takes(q, k, v, dropout):
            return None
        bands = Bands.of(ctx, reach, 1 if ctx.real is None else len(q))
        key = (Window, "bias", reach, bands.sentences, q.dtype)
        bias = ctx.cached(key, lambda: self.bias_of_blocks(q, bands))
        out = windowed_attention(q, k, v, bias, bands, self.options.across)
        if ctx.real is not None and ctx.nothing_allowed:
            out = out.masked_fill(~ctx.real.any(dim=1)[:, None, None, None], 0.0)
        return out

    def bias_of_blocks(self, q: Tensor, bands: Bands) -> Tensor:
        """Return a bias that masks the keys outside the window, of shape (B, G, I, J)."""
        allowed = allowed_pairs(q, bands.context, [self])
        assert allowed is not None  # the window is a mask
        bias = torch.zeros_like(allowed, dtype=q.dtype).masked_fill_(~allowed, lowest(q.dtype))
        by_sentence: Tensor = bias[:, 0].unflatten(0, (bands.sentences, -1))
        return by_sentence


def across_heads(x: Tensor, copies: int) -> Tensor:
    """Expand x, (B, H, K, D), by neighbouring heads, or zeros, to (B, H, copies, K, D)."""
    if copies == 1:
        return x.unsqueeze(2)
    heads = x.size(1)
    padded = F.pad(x, (0, 0, 0, 0, copies // 2, copies // 2))  # B H+N-1 K D
    return torch.stack([padded[:, n : n + heads] for n in range(copies)], dim=2)

"""Multi-head self-attention with mechanisms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.attention.pipeline import attend, of_stage
from fairseq_posattn.core.attention.stages import PostAttention, PreAttention
from fairseq_posattn.core.attention.supervised import Supervised
from fairseq_posattn.errors import InputError


class MultiheadSelfAttention(nn.Module):
    """Multi-head self-attention with mechanisms; use `build_self_attention` to create a layer.

        x = layer.before(x, ctx)
        out, weights = layer(x, ctx, need_weights=True)  # T B C and B H T T

    Parameters have the same names as in fairseq and are created and initialised in the same order.
    Therefore, fairseq's checkpoints can be loaded, and the same random seed gives the same model.
    As in fairseq, inputs have the shape (T, B, C); with another layout, gradients would be summed
    in a different order.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        mechanisms: Sequence[Mechanism] = (),
        dropout: nn.Module | None = None,
        bias: bool = True,
        output: bool = True,
    ):
        """Create the projections and add the mechanisms.

        bias: whether the projections of queries, keys and values have a bias.
        output: whether the layer has an output projection.
        """
        super().__init__()
        if width % heads:
            raise InputError(
                f"{heads} attention heads do not divide the width {width}; change one of the two"
            )
        self.heads = heads
        self.k_proj = nn.Linear(width, width, bias=bias)
        self.v_proj = nn.Linear(width, width, bias=bias)
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.out_proj = nn.Linear(width, width) if output else nn.Identity()
        self.reset_parameters()
        self.mechanisms = nn.ModuleDict({m.name: m for m in mechanisms})
        self.dropout_module = dropout

    def reset_parameters(self) -> None:
        """Initialise the projections as in fairseq."""
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        if isinstance(self.out_proj, nn.Linear):
            nn.init.xavier_uniform_(self.out_proj.weight)
            nn.init.zeros_(self.out_proj.bias)

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Change the input x, (T, B, C), before the residual connection branches off."""
        for mechanism in of_stage(self.mechanisms.values(), PreAttention):
            x = mechanism.before(x, ctx)
        return x

    def forward(
        self,
        x: Tensor,
        ctx: AttentionContext,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, (T, B, C), and the weights, (B, H, T, T), or None."""
        q, k, v = self.project(x)
        return self.attend(x, q, k, v, ctx, need_weights)

    def project(self, x: Tensor) -> list[Tensor]:
        """Project the input, (T, B, C), to queries, keys and values, each (B, H, T, D)."""
        return [self.split(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj)]

    def attend(
        self,
        x: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        ctx: AttentionContext,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what `forward` returns, given q, k and v; keys may include earlier steps."""
        mechanisms = of_stage(self.mechanisms.values(), Mechanism)  # all of them
        out, weights = attend(q, k, v, ctx, mechanisms, self.dropout_module, need_weights)
        out = self.out_proj(out.permute(2, 0, 1, 3).reshape(x.shape))  # T B C
        for mechanism in of_stage(mechanisms, PostAttention):
            out = mechanism.replace(x, out, ctx)
        return out, weights

    def take_supervision(self) -> Tensor | None:
        """Return the sum of all `Supervised.take_supervision`, or None; call it after `forward`."""
        taken = [
            mechanism.take_supervision()
            for mechanism in of_stage(self.mechanisms.values(), Supervised)
        ]
        found = [sums for sums in taken if sums is not None]
        return torch.stack(found).sum(dim=0) if found else None

    def split(self, x: Tensor) -> Tensor:
        """Split x, (T, B, C), into (B, H, T, D) as torch does, so that gradients are equal."""
        length, batch, width = x.shape
        x = x.view(length, batch * self.heads, width // self.heads).transpose(0, 1)
        return x.view(batch, self.heads, length, -1)

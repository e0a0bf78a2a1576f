"""The small self-attention layer with random parameters that the checks use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.core.attention import (
    MECHANISMS,
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    CrossSpecification,
    Mechanism,
    MultiheadSelfAttention,
    Observer,
    PostAttention,
)
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.core.attention.sample_batch import LABELS, WIDTH
from fairseq_posattn.core.specification import parse

HEADS = 4
STD = 0.5  # of random parameters
RANDOM: ContextVar[bool] = ContextVar("RANDOM", default=True)  # whether parameters are random
SHAPE = AttentionShape(HEADS, WIDTH // HEADS, max_positions=16, brackets=True, **LABELS)


class Attention(MultiheadSelfAttention):
    """Self-attention including the mechanisms that act before it."""

    def forward(
        self,
        x: Tensor,
        ctx: AttentionContext,
        need_weights: bool = False,
        observe: Observer | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Apply `before`, and return output and weights like the base class."""
        return super().forward(self.before(x, ctx, observe), ctx, need_weights, observe)

    def with_weights(self, x: Tensor, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        out, weights = self(x, ctx, need_weights=True)
        return out, weights

    def output(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the output without weights, for which the fused kernel may be used."""
        out: Tensor = self(x, ctx)[0]
        return out


def attention(specification: str, seed: int = 0, cross: bool = False) -> Attention:
    """Return a layer in double precision, with random parameters of its mechanisms if RANDOM."""
    module = fresh(specification, seed, cross)
    for parameter in module.mechanisms.parameters() if RANDOM.get() else ():
        torch.nn.init.normal_(parameter, std=STD)
    return module.double().eval()


def fresh(specification: str, seed: int = 0, cross: bool = False) -> Attention:
    """Return a layer with initial parameters; cross: whether it is cross-attention."""
    torch.manual_seed(seed)
    kind = CrossSpecification if cross else AttentionSpecification
    return Attention(WIDTH, HEADS, kind(specification).build(0, SHAPE))


def written(name: str, options: str) -> str:
    """Format a mechanism with options: 'mine(size=3)'."""
    return f"{name}({options})" if options else name


def beside_plain(specification: str) -> tuple[Attention, Attention]:
    """Return plain attention, and a layer with mechanisms that has the same projections."""
    plain, other = attention(""), attention(specification)
    other.load_state_dict(plain.state_dict(), strict=False)
    return plain, other


def mechanisms_of(specification: str) -> list[type[Mechanism]]:
    return [MECHANISMS[term.name] for term in parse(specification)]


def has_replacement(module: Attention) -> bool:
    return bool(of_stage(module.mechanisms.values(), PostAttention))


@contextmanager
def kernel_calls() -> Iterator[list[dict[str, Any]]]:
    """Yield a list that collects the keyword arguments of each call of torch's fused kernel."""
    calls: list[dict[str, Any]] = []
    kernel = F.scaled_dot_product_attention

    def noted(*args: Any, **options: Any) -> Tensor:
        calls.append(options)
        return kernel(*args, **options)

    with mock.patch.object(F, "scaled_dot_product_attention", noted):
        yield calls

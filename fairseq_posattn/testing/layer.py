"""A small attention layer with random parameters, which all checks use."""

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
    PostAttention,
)
from fairseq_posattn.core.attention.pipeline import of_stage
from fairseq_posattn.core.attention.sample_batch import LABELS, WIDTH
from fairseq_posattn.core.specification import parse

HEADS = 4
STD = 0.5  # standard deviation of random parameters
RANDOM: ContextVar[bool] = ContextVar("RANDOM", default=True)  # draw mechanism parameters at random
SHAPE = AttentionShape(HEADS, WIDTH // HEADS, max_positions=16, brackets=True, **LABELS)


class Attention(MultiheadSelfAttention):
    """A self-attention layer that also applies the mechanisms that act before the attention."""

    def forward(
        self,
        x: Tensor,
        ctx: AttentionContext,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the `before` stage, and return the output and, if requested, the weights."""
        return super().forward(self.before(x, ctx), ctx, need_weights)

    def with_weights(self, x: Tensor, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        out, weights = self(x, ctx, need_weights=True)
        return out, weights

    def output(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the output without computing weights, so that the fused kernel can be used."""
        out: Tensor = self(x, ctx)[0]
        return out


def attention(specification: str, seed: int = 0, cross: bool = False) -> Attention:
    """Return a layer in double precision; mechanisms get random parameters if RANDOM is true."""
    module = fresh(specification, seed, cross)
    for parameter in module.mechanisms.parameters() if RANDOM.get() else ():
        torch.nn.init.normal_(parameter, std=STD)
    return module.double().eval()


def fresh(specification: str, seed: int = 0, cross: bool = False) -> Attention:
    """Return a layer with initial parameters; `cross` selects cross-attention."""
    torch.manual_seed(seed)
    kind = CrossSpecification if cross else AttentionSpecification
    return Attention(WIDTH, HEADS, kind(specification).build(0, SHAPE))


def written(name: str, options: str) -> str:
    """Format a mechanism with its options, as in 'mine(size=3)'."""
    return f"{name}({options})" if options else name


def beside_plain(specification: str) -> tuple[Attention, Attention]:
    """Return a layer of plain attention, and one with mechanisms and equal projection weights."""
    plain, other = attention(""), attention(specification)
    other.load_state_dict(plain.state_dict(), strict=False)
    return plain, other


def mechanisms_of(specification: str) -> list[type[Mechanism]]:
    return [MECHANISMS[term.name] for term in parse(specification)]


def has_replacement(module: Attention) -> bool:
    return bool(of_stage(module.mechanisms.values(), PostAttention))


@contextmanager
def kernel_calls() -> Iterator[list[dict[str, Any]]]:
    """Yield a list that collects the keyword arguments of all calls to torch's fused kernel."""
    calls: list[dict[str, Any]] = []
    kernel = F.scaled_dot_product_attention

    def noted(*args: Any, **options: Any) -> Tensor:
        calls.append(options)
        return kernel(*args, **options)

    with mock.patch.object(F, "scaled_dot_product_attention", noted):
        yield calls

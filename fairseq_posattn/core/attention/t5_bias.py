"""The relative position bias of T5 (Raffel et al. 2020, Section 2.1).

A learnt bias for each range of distances is added to the score: s_ij + b_h[bucket(j - i)]. In an
encoder, half of the buckets are for keys after the query; in a decoder, all buckets are for
previous keys. In each direction, each bucket in the first half covers one distance. The other
buckets cover ranges that grow by a constant factor up to `max`; the last one also covers all
larger distances. As in T5, all layers share one table. Unlike in T5, scores are divided
by sqrt(d) by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import at_least_float32
from fairseq_posattn.core.attention.stages import QKVTransform, ScoreBias
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import limit, one_of


@dataclass(frozen=True)
class T5BiasOptions:
    buckets: int = option(
        32,
        "number of buckets, an even number",
        limit(lambda count: count > 3 and count % 2 == 0, "an even number of at least 4"),
    )
    max: int = option(128, "assign all keys at this distance or farther to one bucket per side")
    shared: str = option(
        "layers",
        "layers: all layers share one table, as in T5; nothing: each layer has its own",
        one_of("layers", "nothing"),
    )
    scaled: bool = option(True, "divide scores by sqrt(d); false: do not, as in T5")

    def __post_init__(self) -> None:
        if self.max <= self.buckets // 2:
            raise ValueError(
                f"max={self.max} is too small, because in a decoder the first {self.buckets // 2} "
                f"buckets cover one distance each; use for example max={4 * self.buckets}"
            )


class Table(nn.Module):
    """The learnt biases of the buckets for each head."""

    def __init__(self, heads: int, buckets: int):
        super().__init__()
        self.scores = nn.Parameter(torch.empty(heads, buckets))
        nn.init.xavier_uniform_(self.scores)


class T5Bias(ScoreBias, QKVTransform):
    """Adds to the scores a learnt bias for each head and each range of distances."""

    name = "t5_bias"
    paper = "Raffel et al. 2020, Section 2.1"
    Options = T5BiasOptions
    options: T5BiasOptions
    accepts_heads = True
    causal_safe = True
    banded = True
    by_distance = True
    examples = ("", "buckets=8, max=6", "shared=nothing, scaled=false")
    neutral = ""
    equation = "b_ij = b_h[bucket(j − i)]"
    shared: Table
    of_one_side: Tensor  # smallest distance of each bucket in a decoder
    of_two: Tensor  # the same for each side in an encoder

    def make_parameters(self) -> None:
        if self.options.shared == "nothing":
            self.own = Table(self.head_count, self.options.buckets)
        for name, count in (
            ("of_one_side", self.options.buckets),
            ("of_two", self.options.buckets // 2),
        ):
            starts = torch.tensor(starts_of(count, self.options.max))
            self.register_buffer(name, starts, persistent=False)

    def for_all_layers(self) -> Table | None:
        if self.options.shared == "nothing":
            return None
        return Table(self.head_count, self.options.buckets)

    @property
    def table(self) -> Table:
        return self.own if self.options.shared == "nothing" else self.shared

    def diagnostics(self) -> Mapping[str, Tensor]:
        scores = at_least_float32(self.table.scores)
        return {"deviation of the scores": scores.std(-1, unbiased=False)}

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        return (q if self.options.scaled else q * q.size(-1) ** 0.5), k, v

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, of shape (1, H, Q, K)."""
        return self.table.scores[:, self.rows(ctx)][None]

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        return {"bucket of the distance": self.rows(ctx)[None, None]}

    def rows(self, ctx: AttentionContext) -> Tensor:
        """Return the bucket for each query and key, of shape (Q, K)."""
        return ctx.cached((T5Bias, self.options), lambda: self.buckets(ctx.distances, ctx.causal))

    def buckets(self, distances: Tensor, causal: bool) -> Tensor:
        starts = self.of_one_side if causal else self.of_two
        buckets = torch.searchsorted(starts, distances.abs(), right=True) - 1
        return buckets if causal else buckets + len(starts) * (distances > 0)


def starts_of(buckets: int, longest: int) -> list[int]:
    """Return the smallest distance of each bucket of a side, using exact integer arithmetic."""
    exact = buckets // 2
    rest = buckets - exact
    starts, distance = list(range(exact)), exact
    for step in range(rest):  # (distance / exact)^rest >= (longest / exact)^step
        while distance**rest * exact**step < longest**step * exact**rest:
            distance += 1
        starts.append(distance)
    return starts

"""Base classes of mechanisms, one for each stage in which a mechanism can act.

`pipeline.attend` calls the stages in a fixed order. In most stages, the argument q contains the
queries of the mechanism's heads after all transforms; its shape is (B, H, Q, D).
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import Mechanism


class PreAttention(Mechanism):
    """Changes the input of its layer before the attention."""

    def before(self, x: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new input, of shape (T, B, C), including any residual connection."""
        raise NotImplementedError


class QKVTransform(Mechanism):
    """Changes queries, keys and values."""

    def transform(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return new queries, keys and values; their shapes must not change."""
        raise NotImplementedError

    def transform_queries(self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext) -> Tensor:
        """Return only the new queries.

        In incremental decoding, cross-attention calls this method, because its keys and values have
        been transformed in the first step. Override this method to save time.
        """
        return self.transform(q, k, v, ctx)[0]


class KeyExpansion(Mechanism):
    """Provides several keys and values per piece, with one softmax over all of them.

    The attribute `copies` specifies the number of keys and values per piece.
    """

    copies: int = 1

    def expand(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return expanded keys and values, and a mask of the keys that exist.

        Keys and values have the shape (B, H, copies·K, D), with one copy after the other. The
        boolean mask has the shape (1, H, 1, copies·K).
        """
        raise NotImplementedError


class ScoreBias(Mechanism):
    """Adds a bias to the scaled scores."""

    by_distance: ClassVar[bool] = False  # whether the bias depends only on ctx.distances

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, broadcastable to (B, H, Q, K)."""
        raise NotImplementedError


class KeyBias(Mechanism):
    """Adds a bias to the scaled scores that also depends on the keys."""

    def key_bias(self, q: Tensor, k: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the bias, broadcastable to (B, H, Q, K).

        k contains the keys after all transforms.
        """
        raise NotImplementedError


class ScoreChange(Mechanism):
    """Changes the scaled scores."""

    fused = False

    def change_scores(self, scores: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new scores. Both old and new scores have the shape (B, H, Q, K)."""
        raise NotImplementedError


class ScoreMask(Mechanism):
    """Restricts the keys to which a query may attend."""

    local: ClassVar[bool] = False  # whether it allows only keys near some position
    keeps_self: bool = True  # whether a piece may always attend to itself

    @classmethod
    def forbids(cls, options: Any) -> bool:
        """Return whether the mechanism masks any key with these options."""
        return True

    def reach(self, ctx: AttentionContext) -> int | None:
        """Return the largest distance between a query and a key to which it may attend.

        With this limit, the scores can be computed in bands. None means that the distance is
        unlimited, or that computing bands would be slower for this batch.
        """
        return None

    def limits(self, ctx: AttentionContext) -> tuple[int, Tensor | None] | None:
        """Return the mask as a largest distance and groups, for `flex`; None if this is impossible.

        A query may attend to the keys of its own group, within this distance. The groups are
        non-negative integers, of shape (B, K) or (1, K); None means that there is only one group.
        """
        return None

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return a boolean mask, broadcastable to (B, H, Q, K).

        True means that the query may attend to the key.
        """
        raise NotImplementedError


class WeightChange(Mechanism):
    """Changes the weights after the softmax; the weights of masked keys are reset to zero."""

    fused = False

    def change_weights(self, weights: Tensor, q: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new weights. Both old and new weights have the shape (B, H, Q, K)."""
        raise NotImplementedError


class ValueTerm(Mechanism):
    """Adds a term, computed from the weights, to the output of each head."""

    fused = False

    def value_term(self, weights: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the term, of shape (B, H, Q, D). The weights have the shape (B, H, Q, K)."""
        raise NotImplementedError


class PostAttention(Mechanism):
    """Replaces the output of the attention."""

    def replace(self, x: Tensor, out: Tensor, ctx: AttentionContext) -> Tensor:
        """Return the new output.

        x is the input of the attention and out is its output. All tensors have the shape (T, B, C).
        """
        raise NotImplementedError


class FastPath(Mechanism):
    """Computes the output faster if no other mechanism acts on the scores."""

    def fast_path(
        self, q: Tensor, k: Tensor, v: Tensor, ctx: AttentionContext, dropout: float
    ) -> Tensor | None:
        """Return the output, or None to use the standard computation.

        The output, q, k and v have the shape (B, H, T, D).
        """
        raise NotImplementedError

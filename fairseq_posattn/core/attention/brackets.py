"""Attention within the innermost open brackets of a target, for decoders.

The structure of a logical form, a program or a linearised tree is marked by brackets. Let the depth
d_i be the number of brackets that are open after piece i. The bracket of query i consists of the
pieces j <= i with

    d_j = d_i  and  min(d_j ... d_i) >= d_i

so `(` is the first piece of the bracket that it opens, and `)` belongs to the enclosing bracket.
Query i attends to this bracket and, by the same rule with d_i - 1, to the enclosing one, but not to
closed brackets nor to those further out, so the pattern is the same at any depth. c(i,j) is the
number of allowed pieces between i and j, counted in each bracket separately; K[c(i,j)] and
V[c(i,j)] act as in `relative`. Compare the stack of Murty et al. 2023, "Pushdown Layers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, ScoreMask, Use
from fairseq_posattn.core.attention.relative import ByTables
from fairseq_posattn.core.option_values import option
from fairseq_posattn.io.records import at_least

OPENING, CLOSING = "(", ")"


def depths(opening: Tensor, closing: Tensor) -> Tensor:
    """Return the number of open brackets after each piece, B K.

    opening, closing: B K, which pieces are opening and closing brackets.
    """
    return (opening.long() - closing.long()).cumsum(dim=1)


@dataclass(frozen=True)
class BracketsOptions:
    max: int = option(12, "clip distances within a bracket to this number of pieces", at_least(1))
    shared_heads: bool = option(
        True, "share one pair of tables among all heads; false: one pair per head"
    )


class Brackets(ScoreMask, ByTables):
    """Restricts a piece to its innermost bracket and the enclosing one, with relative positions."""

    name = "brackets"
    paper = "ours; compare Murty et al. 2023"
    Options = BracketsOptions
    options: BracketsOptions
    causal_safe = True
    reads_brackets = True
    neutral = None
    examples = ("max=2", "max=3, shared_heads=false")
    equation = "keys of the own bracket and the one around it; as relative, c(i,j) counts in each"

    @classmethod
    def check(cls, options: BracketsOptions, shape: AttentionShape, others: Sequence[Use]) -> None:
        if not shape.brackets:
            raise ValueError(
                f"it reads the brackets {OPENING} and {CLOSING} of the target; use it in "
                "--decoder-attention, with a target dictionary that contains both"
            )

    def make_parameters(self) -> None:
        self.make_tables(2 * (self.options.max + 1), self.options.shared_heads)

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        return self.places(ctx)[0]

    def rows(self, ctx: AttentionContext) -> Tensor:
        return self.places(ctx)[1]

    def places(self, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        """Return which keys are allowed, and the table row of each, B 1 Q K."""
        return ctx.cached((Brackets, self.options.max), lambda: self.find(ctx))

    def find(self, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        depth = ctx.brackets
        assert depth is not None  # `check` refuses models without brackets
        own, width = depth[:, ctx.first : ctx.first + ctx.queries, None], self.options.max + 1
        past = ctx.distances <= 0  # Q K
        inner = seen_at(own, depth, past)
        outer = seen_at(own - 1, depth, past)
        rows = between(inner, self.options.max) * inner
        rows = rows + (between(outer, self.options.max) + width) * outer
        return (inner | outer)[:, None], rows[:, None]

    def matrices(self, q: Tensor, ctx: AttentionContext) -> Mapping[str, Tensor]:
        return {"row c(i, j) of query and key": self.rows(ctx)}


def seen_at(level: Tensor, depth: Tensor, past: Tensor) -> Tensor:
    """Return which keys belong to the bracket of depth `level` that is open at each query, B Q K.

    level: depth for each query, B Q 1; depth: of the keys, B K; past: keys up to the query, Q K.
    """
    keys = depth[:, None, :]
    lower = (keys < level) & past
    after = lower.flip(-1).cumsum(dim=-1).flip(-1) == 0  # the depth is never lower after the key
    return (keys == level) & past & after


def between(seen: Tensor, most: int) -> Tensor:
    """Return the number of seen keys after each key, at most `most`: B Q K."""
    return (seen.long().flip(-1).cumsum(dim=-1).flip(-1) - 1).clamp(0, most)

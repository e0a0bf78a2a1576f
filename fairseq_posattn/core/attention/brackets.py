"""The brackets of a target say which of its pieces belong together, while it is being written.

A logical form, a program or a tree in one line has its structure in brackets. With depth d_i, the
brackets that are open after piece i, the own bracket of query i are the pieces j <= i with

    d_j = d_i  and  min(d_j ... d_i) >= d_i

so `(` is the first piece of what it opens, and `)` belongs to what goes on behind it. Query i sees
them and, by the same rule with d_i - 1, those of the bracket around it: nothing in brackets that
are closed, nothing further out. So what it sees is the same at any depth. c(i,j) counts the seen
pieces between them, in either bracket by itself; K[c(i,j)] and V[c(i,j)] are those of `relative`.
Compare the stack of Murty et al. 2023, "Pushdown Layers".
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
    """Return how many brackets are open after each piece, B K, from which pieces are brackets."""
    return (opening.long() - closing.long()).cumsum(dim=1)


@dataclass(frozen=True)
class BracketsOptions:
    max: int = option(
        12, "pieces further away in their bracket have the vectors of this distance", at_least(1)
    )
    shared_heads: bool = option(
        True, "all heads share one pair of tables; with false each head has its own"
    )


class Brackets(ScoreMask, ByTables):
    """A piece sees the bracket in which it stands and the one around it, by distance in each."""

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
                f"it reads the brackets {OPENING} and {CLOSING} of a target while it is written; "
                "use it with --decoder-attention, where the dictionary of the target has both"
            )

    def make_parameters(self) -> None:
        self.make_tables(2 * (self.options.max + 1), self.options.shared_heads)

    def allowed(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        return self.places(ctx)[0]

    def rows(self, ctx: AttentionContext) -> Tensor:
        return self.places(ctx)[1]

    def places(self, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        """Return which keys are seen, and the row of each: B 1 Q K."""
        return ctx.cached((Brackets, self.options.max), lambda: self.find(ctx))

    def find(self, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        depth = ctx.brackets
        assert depth is not None  # `check` refuses a model that has none
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
    """Tell which keys belong to the last bracket of a depth, B Q K, that each query leaves open.

    level: the depth, B Q 1; depth: that of the keys, B K.
    """
    keys = depth[:, None, :]
    lower = (keys < level) & past
    after = lower.flip(-1).cumsum(dim=-1).flip(-1) == 0  # no lower depth from the key on
    return (keys == level) & past & after


def between(seen: Tensor, most: int) -> Tensor:
    """Return how many seen keys come after each key, at most so many: B Q K."""
    return (seen.long().flip(-1).cumsum(dim=-1).flip(-1) - 1).clamp(0, most)

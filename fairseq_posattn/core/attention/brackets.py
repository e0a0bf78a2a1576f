"""Decoder attention within the innermost open brackets of a target sequence.

Brackets mark the structure of a logical form, a program or a linearised tree. Let the depth d_i be
the number of brackets that are open after piece i. The bracket of query i consists of the pieces j
<= i with

    d_j = d_i  and  min(d_j ... d_i) >= d_i

Thus, `(` is the first piece of the bracket that it opens, and `)` belongs to the enclosing bracket.
Query i attends to its bracket and, by the same rule with d_i - 1, to the enclosing bracket. It
attends neither to closed brackets nor to brackets further out, so the attention pattern is the same
at any depth. c(i,j) counts the allowed pieces after j in the same bracket. As in `relative`, it
selects learnt vectors K[c(i,j)] and V[c(i,j)]; each bracket has its own. The stack
tape of Murty et al. 2023 ("Pushdown Layers") serves a similar purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.attention.mechanism import AttentionShape, Use
from fairseq_posattn.core.attention.relative import ByTables
from fairseq_posattn.core.attention.stages import ScoreMask
from fairseq_posattn.core.option_values import option
from fairseq_posattn.files.records import at_least

OPENING, CLOSING = "(", ")"


def depths(opening: Tensor, closing: Tensor) -> Tensor:
    """Return the number of open brackets after each piece, of shape (B, K).

    opening, closing: masks of the pieces that are opening and closing brackets, of shape (B, K).
    """
    return (opening.long() - closing.long()).cumsum(dim=1)


@dataclass(frozen=True)
class BracketsOptions:
    max: int = option(12, "clip distances within a bracket to this number of pieces", at_least(1))
    shared_heads: bool = option(
        True, "share one pair of tables among all heads; false: one pair per head"
    )


class Brackets(ScoreMask, ByTables):
    """Restricts attention to the two innermost open brackets, and adds relative positions."""

    name = "brackets"
    paper = "ours; compare Murty et al. 2023"
    Options = BracketsOptions
    options: BracketsOptions
    causal_safe = True
    reads_brackets = True
    neutral = None
    examples = ("max=2", "max=3, shared_heads=false")
    equation = "keys in the query's and the enclosing bracket; as relative, c(i,j) counts in each"

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
        """Return a mask of the allowed keys and the table row of each key, both (B, 1, Q, K)."""
        return ctx.cached((Brackets, self.options.max), lambda: self.find(ctx))

    def find(self, ctx: AttentionContext) -> tuple[Tensor, Tensor]:
        depth = ctx.brackets
        assert depth is not None  # `check` rejects models without brackets
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
    """Return a mask of the keys in the bracket of depth `level` that is open at each query.

    The mask has the shape (B, Q, K).

    level: depth of the bracket for each query, of shape (B, Q, 1).
    depth: depths of the keys, of shape (B, K).
    past: mask of the keys that do not follow the query, of shape (Q, K).
    """
    keys = depth[:, None, :]
    lower = (keys < level) & past
    after = lower.flip(-1).cumsum(dim=-1).flip(-1) == 0  # no lower depth from key to query
    return (keys == level) & past & after


def between(seen: Tensor, most: int) -> Tensor:
    """Count the keys in the mask `seen` after each key, up to `most`; the shape is (B, Q, K)."""
    return (seen.long().flip(-1).cumsum(dim=-1).flip(-1) - 1).clamp(0, most)

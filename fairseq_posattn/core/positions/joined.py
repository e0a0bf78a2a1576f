"""Several positions are put together to one vector for each piece."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from fairseq_posattn.core.attention.context import AttentionContext
from fairseq_posattn.core.positions.registry import TreeDepth


def joined(
    sequence: Tensor | None,
    others: Iterable[nn.Module],
    ctx: AttentionContext,
    fuser: nn.Module | None = None,
) -> Tensor | None:
    """Return the sum of all positions that are added, B Q C or 1 Q C, or None if there is none.

    The fuser joins the position in the sequence with the depth in the tree (f_abs of Eq. 7).
    """
    whole = sequence
    for position in others:
        if position.changes_input:
            continue
        vectors = position(ctx)
        if whole is None:
            whole = vectors
        elif fuser is not None and isinstance(position, TreeDepth):
            whole = fuser(whole, vectors.type_as(whole))
        else:
            whole = whole + vectors.type_as(whole)
    return whole

"""What a picture is made of: rows of matrices, one for each head or for heads that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

import numpy as np
import torch
from torch import Tensor

from fairseq_posattn.core.specification import format_numbers


class Kind(Enum):
    """How the numbers of a row are coloured."""

    MASK = "mask"  # allowed or not
    RELATION = "relation"  # whole numbers, written into the cells
    SIGNED = "signed"  # from negative over 0 to positive
    SCORES = "scores"  # the same, with one scale for all rows of scores
    SIZE = "size"  # from 0 upwards
    FIELD = "field"  # the same, by square roots, so that what is weak is seen as well
    WEIGHTS = "weights"  # the same, with one scale for all rows of weights


SIGNED = (Kind.RELATION, Kind.SIGNED, Kind.SCORES)  # have negative numbers, too
END = {Kind.SIGNED: 5.0}  # exp(-5) is less than 1 %: more has the same colour, so less is seen


@dataclass(frozen=True)
class Panel:
    """One matrix, queries x keys, in the column of its first head; `blocks` names the parts that
    its columns have if there are several."""

    label: str
    column: int
    values: np.ndarray
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """The matrices of one stage; `mechanism` is empty for what belongs to the whole layer."""

    mechanism: str
    title: str
    kind: Kind
    panels: tuple[Panel, ...]

    @property
    def heading(self) -> str:
        return f"{self.mechanism}: {self.title}" if self.mechanism else self.title

    @property
    def has_scale(self) -> bool:
        """Tell whether the colours need a scale; the numbers of a relation stand in its cells."""
        return self.kind not in (Kind.MASK, Kind.RELATION)

    @property
    def is_signed(self) -> bool:
        """Tell whether numbers may be negative, so that 0 lies in the middle of the scale."""
        return self.kind in SIGNED

    @property
    def largest(self) -> float:
        """Return the largest finite number, without its sign."""
        numbers = np.concatenate([np.abs(panel.values).ravel() for panel in self.panels])
        return float(numbers[np.isfinite(numbers)].max(initial=0.0))


def limits(rows: Sequence[Row]) -> list[float]:
    """Return the number at the end of each row's scale; all weights share one, as all scores do."""
    shared = {
        kind: max([row.largest for row in rows if row.kind == kind], default=0.0)
        for kind in (Kind.WEIGHTS, Kind.SCORES)
    }
    return [min(shared.get(row.kind, row.largest) or 1.0, END.get(row.kind, inf)) for row in rows]


def scale_labels(row: Row, limit: float) -> list[str]:
    """Return what stands at the ends of a row's scale, and at 0 if that lies between them."""
    more, less = ("≥ ", "≤ ") if row.largest > limit else ("", "")
    if row.is_signed:
        return [f"{less}−{limit:.2g}", "0", f"{more}{limit:.2g}"]
    return ["0", f"{more}{limit:.2g}"]


def panels(values: Tensor, heads: Sequence[int], count: int) -> tuple[Panel, ...]:
    """Return a panel for each of some heads out of `count`; heads that are alike share one.

    values: H Q K, a matrix for each of these heads.
    """
    groups: list[list[int]] = []
    for row in range(len(heads)):
        for group in groups:
            if torch.equal(values[row], values[group[0]]):
                group.append(row)
                break
        else:
            groups.append([row])
    found = []
    for group in groups:
        numbers = format_numbers(tuple(heads[row] for row in group))
        label = f"head{'s' * (len(group) > 1)} {numbers.replace('-', '–').replace('|', ', ')}"
        label = "all heads" if len(group) == count > 1 else label
        found.append(Panel(label, heads[group[0]], values[group[0]].detach().numpy()))
    return tuple(found)

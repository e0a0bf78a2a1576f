"""Define the rows of a picture, each with one matrix per head or group of identical heads."""

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
    """The ways to colour the values of a row."""

    MASK = "mask"  # allowed or not
    RELATION = "relation"  # whole numbers, written into the cells
    SIGNED = "signed"  # diverging colours, negative and positive
    SCORES = "scores"  # like SIGNED, with a common scale for all rows of scores
    SIZE = "size"  # sequential colours from 0
    FIELD = "field"  # like SIZE, with a square-root scale to make small values visible
    WEIGHTS = "weights"  # like SIZE, with a common scale for all rows of weights


SIGNED = (Kind.RELATION, Kind.SIGNED, Kind.SCORES)  # may contain negative values
END = {Kind.SIGNED: 5.0}  # clip values at ±5, as exp(-5) < 1 %, so that small ones stay visible


@dataclass(frozen=True)
class Panel:
    """A matrix of shape (queries, keys), drawn in the column of its first head.

    blocks: names of consecutive blocks of columns, if there are several.
    """

    label: str
    column: int
    values: np.ndarray
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """The matrices of one stage.

    mechanism: name of the mechanism, or empty if the matrices belong to the whole layer.
    """

    mechanism: str
    title: str
    kind: Kind
    panels: tuple[Panel, ...]

    @property
    def heading(self) -> str:
        return f"{self.mechanism}: {self.title}" if self.mechanism else self.title

    @property
    def has_scale(self) -> bool:
        """Whether a colour scale is drawn.

        Relations need no scale, because their cells contain the numbers.
        """
        return self.kind not in (Kind.MASK, Kind.RELATION)

    @property
    def is_signed(self) -> bool:
        """Whether values may be negative; if so, 0 is in the middle of the colour scale."""
        return self.kind in SIGNED

    @property
    def largest(self) -> float:
        """The largest finite absolute value in the row."""
        numbers = np.concatenate([np.abs(panel.values).ravel() for panel in self.panels])
        return float(numbers[np.isfinite(numbers)].max(initial=0.0))


def limits(rows: Sequence[Row]) -> list[float]:
    """Return the upper end of each row's colour scale.

    All rows of attention weights share one scale, and all rows of scores share another.
    """
    shared = {
        kind: max([row.largest for row in rows if row.kind == kind], default=0.0)
        for kind in (Kind.WEIGHTS, Kind.SCORES)
    }
    return [min(shared.get(row.kind, row.largest) or 1.0, END.get(row.kind, inf)) for row in rows]


def scale_labels(row: Row, limit: float) -> list[str]:
    """Return the labels at the ends of a row's scale and, for signed values, at 0."""
    more, less = ("≥ ", "≤ ") if row.largest > limit else ("", "")
    if row.is_signed:
        return [f"{less}−{limit:.2g}", "0", f"{more}{limit:.2g}"]
    return ["0", f"{more}{limit:.2g}"]


def panels(values: Tensor, heads: Sequence[int], count: int) -> tuple[Panel, ...]:
    """Return the panels of a row; heads with equal matrices share one panel.

    values: matrices of the heads, of shape (H, Q, K).
    heads: numbers of these heads.
    count: number of all heads in the layer.
    """
    groups: list[list[int]] = []
    for row, matrix in enumerate(values):
        equal = [group for group in groups if torch.equal(matrix, values[group[0]])]
        if equal:
            equal[0].append(row)
        else:
            groups.append([row])
    found = []
    for group in groups:
        numbers = format_numbers(tuple(heads[row] for row in group))
        label = f"head{'s' * (len(group) > 1)} {numbers.replace('-', '–').replace('|', ', ')}"
        label = "all heads" if len(group) == count > 1 else label
        found.append(Panel(label, heads[group[0]], values[group[0]].detach().numpy()))
    return tuple(found)

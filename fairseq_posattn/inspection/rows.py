"""Define the rows of a picture, each with one matrix per head or group of identical heads.

The effect of a stage, treated as a black box, is measured with gradients and selected inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

import numpy as np
import torch
from torch import Tensor

from fairseq_posattn.core.attention import AttentionContext, KeyExpansion, ValueTerm
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


@torch.enable_grad()
def receptive_field(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the relative influence of each input position on each output position.

    The influence of input j on output i is the norm of the gradient of output i with respect to
    input j. `x` has shape (T, 1, C). The result has shape (T, T), and each row is normalised to a
    sum of 1.
    """
    x, rows = x.detach().requires_grad_(), []
    for out in function(x)[:, 0]:
        directions = torch.eye(len(out), dtype=out.dtype)
        (gradients,) = torch.autograd.grad(  # C T 1 C
            out, x, directions, retain_graph=True, is_grads_batched=True
        )
        rows.append(gradients.square().sum(dim=(0, 2, 3)).sqrt())
    field = torch.stack(rows)
    return field / field.sum(dim=-1, keepdim=True)


def factor(change: Callable[[Tensor], Tensor], x: Tensor) -> Tensor | None:
    """Return the factors if `change` multiplies its input element-wise by factors, otherwise None.

    Some changes, such as a threshold, may not affect any value of `x`. Therefore, values of many
    magnitudes are tested as well.
    """
    found = change(torch.ones_like(x))
    sizes = torch.logspace(-4, 1, x.numel(), dtype=x.dtype, device=x.device).view_as(x)
    signed = sizes if bool((x >= 0).all()) else torch.where(x < 0, -sizes, sizes)
    others = (x, x.flip(-1), 2 * x, signed, signed.flip(-1))
    return found if all(torch.allclose(change(other), found * other) for other in others) else None


def value_sizes(term: ValueTerm, weights: Tensor, ctx: AttentionContext) -> Tensor:
    """Return the norm of the value term for each key, as a tensor of shape (H, Q, K).

    The norm is computed with an attention weight of 1 for this key. It is set to 0 if the actual
    weight is 0, for instance because the key is masked.
    """
    columns = []
    for key in range(weights.size(-1)):
        alone = torch.zeros_like(weights)
        alone[..., key] = 1
        columns.append(term.value_term(alone[None], ctx)[0].norm(dim=-1))  # H Q
    return torch.stack(columns, dim=-1).masked_fill(weights == 0, 0)


def copy_labels(expansion: KeyExpansion, k: Tensor) -> list[list[str]]:
    """Return a label for each copy of the keys that the expansion creates for each head.

    The label is "head 2" if the copy contains the keys of head 2, and "none" if it does not exist.
    To find the head, the keys are replaced by the number of their head before the expansion.
    """
    numbers = torch.arange(k.size(1), dtype=k.dtype)[:, None, None].expand_as(k)
    keys, _, exists = expansion.expand(numbers, numbers)
    of_copy = keys[0, :, :, 0].unflatten(-1, (expansion.copies, -1))[..., 0]  # H copies
    there = exists.expand(-1, k.size(1), -1, -1)[0, :, 0].unflatten(-1, (expansion.copies, -1))
    return [
        [copy_label(n, *pair) for n, pair in enumerate(zip(*rows, strict=True), start=1)]
        for rows in zip(of_copy.tolist(), there.any(dim=-1).tolist(), strict=True)
    ]


def copy_label(copy: int, head: float, exists: bool) -> str:
    if not exists:
        return "none"
    return f"head {int(head)}" if head == int(head) else f"copy {copy}"

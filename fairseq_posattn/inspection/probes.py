"""Measure the effect of a stage, treated as a black box, with gradients and selected inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_posattn.core.attention import AttentionContext, KeyExpansion, ValueTerm


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

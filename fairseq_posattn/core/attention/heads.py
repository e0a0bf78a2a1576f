"""These functions put some heads into all heads, and count keys that have several copies."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from fairseq_posattn.core.attention.mechanism import Heads


def spread(x: Tensor, heads: Heads, count: int, elsewhere: float = 0) -> Tensor:
    """Return x, B h ... of some heads, as B H ... of all heads, with a constant in the others."""
    x = x[(None,) * (4 - x.dim())]
    if heads is None:
        return x
    x = x.expand(-1, len(heads), -1, -1)
    return put_back(x.new_full((x.size(0), count, *x.shape[2:]), elsewhere), x, heads)


def put_back(whole: Tensor, part: Tensor, heads: Heads) -> Tensor:
    """Return the whole, B H ..., with those heads replaced by the part, B h ..."""
    if heads is None:
        return part.type_as(whole)  # autocast, or a mechanism, may have changed its type
    # An index on the device would have to be sent there first, for which the program waits.
    places, part = {head: k for k, head in enumerate(heads)}, part.type_as(whole)
    return torch.cat(
        [
            part[:, places[head], None] if head in places else whole[:, head, None]
            for head in range(whole.size(1))
        ],
        dim=1,
    )


@overload
def repeat_keys(x: Tensor, copies: int) -> Tensor: ...
@overload
def repeat_keys(x: Tensor | None, copies: int) -> Tensor | None: ...
def repeat_keys(x: Tensor | None, copies: int) -> Tensor | None:
    """Return x, ... K, as ... copies·K, since what holds for a key holds for each of its copies."""
    return x if x is None or copies == 1 or x.size(-1) == 1 else x.repeat(1, 1, 1, copies)


def sum_copies(weights: Tensor, copies: int) -> Tensor:
    """Return the weight of each key, B H Q K, as the sum over its copies."""
    if copies == 1:
        return weights
    by_copy: Tensor = weights.unflatten(-1, (copies, -1))
    return by_copy.sum(dim=-2)

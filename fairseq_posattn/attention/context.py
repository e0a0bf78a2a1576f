"""What a mechanism may look at: built once for a batch, shared by all layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fairseq_posattn.positions.tree import SourceTree


@dataclass
class AttentionContext:
    """The batch as self-attention sees it; queries and keys are the same pieces.

    `real` is None where nothing is padded. Padding may lie on either side: a mechanism takes its
    indices from here and never counts columns itself.
    """

    length: int
    device: torch.device
    real: Tensor | None = None  # B K, True = a real piece
    tree: SourceTree | None = None
    cache: dict[Hashable, Tensor] = field(default_factory=dict)

    @cached_property
    def allowed(self) -> Tensor | None:
        """B 1 1 K, True = may be attended to; None = all of them."""
        return None if self.real is None else self.real[:, None, None, :]

    @cached_property
    def nothing_allowed(self) -> bool:
        """Whether some sentence has no real piece, so that its rows must come out as zeros."""
        return self.real is not None and not bool(self.real.any(dim=1).all())

    @cached_property
    def distances(self) -> Tensor:
        """Q K: position of the key minus position of the query. Padding shifts both alike."""
        columns = torch.arange(self.length, device=self.device)
        return columns[None, :] - columns[:, None]

    def cached(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """What several layers need in the same form is made once."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

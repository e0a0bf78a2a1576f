"""The diagonal of cross-attention has a ratio, which is an option of mechanisms around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairseq_posattn.core.options import option


def ratio_option() -> float:
    """Return the field of a dataclass of options that holds the ratio."""
    return option(1.0, "source pieces for each target piece, with which the diagonal rises")


def check_ratio(ratio: float) -> None:
    """Refuse a ratio with which the diagonal would not lead through the source."""
    if not 0 < ratio < float("inf"):
        raise ValueError(
            f"ratio={ratio}: give a number above 0, such as the length of all sources of the "
            "corpus divided by that of all targets"
        )


@dataclass(frozen=True)
class DiagonalOptions:
    """These are the options of a mechanism that only needs to know the diagonal."""

    ratio: float = ratio_option()

    def __post_init__(self) -> None:
        check_ratio(self.ratio)


def ratio_of(options: Any) -> float:
    """Return the ratio that options have; in self-attention they have none, and it is 1."""
    return float(getattr(options, "ratio", 1.0))

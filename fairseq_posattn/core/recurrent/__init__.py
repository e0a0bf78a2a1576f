"""Positional attention over the states of a recurrent network; requires only torch."""

from fairseq_posattn.core.recurrent.positional import PositionGenerator, gaussian_weights

__all__ = [
    "PositionGenerator",
    "gaussian_weights",
]

"""These functions draw the first values of parameters as Keras does (Glorot and Bengio 2010).

Models that were published with Keras start from such values.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

# A normal distribution keeps this share of its deviation when it is cut off at two deviations.
KEPT_OF_DEVIATION = 0.87962566103423978


def glorot_normal_(tensor: Tensor, fan_in: float, fan_out: float) -> None:
    """Fill a tensor from a normal distribution that is cut off at two standard deviations.

    What remains has the standard deviation sqrt(2 / (fan_in + fan_out)).
    """
    uncut = math.sqrt(2 / (fan_in + fan_out)) / KEPT_OF_DEVIATION
    nn.init.trunc_normal_(tensor, std=uncut, a=-2 * uncut, b=2 * uncut)


def glorot_uniform_(tensor: Tensor, fan_in: float, fan_out: float) -> None:
    """Fill a tensor uniformly, with the standard deviation sqrt(2 / (fan_in + fan_out))."""
    bound = math.sqrt(6 / (fan_in + fan_out))
    nn.init.uniform_(tensor, -bound, bound)

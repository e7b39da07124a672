"""The hazard of the normal distribution, accurate in both tails."""

from __future__ import annotations

import math

from scipy.special import erfcx

from probprop._types import FloatArray


def hazard(z: FloatArray) -> FloatArray:
    """phi(z)/Phi(z), by the Mills ratio: no digits are lost in either tail.

    >>> import numpy as np
    >>> hazard(np.array([-40.0, 0.0])).round(6)
    array([40.024969,  0.797885])
    """
    ratio: FloatArray = math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0))
    return ratio

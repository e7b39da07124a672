"""The types of arrays that every room speaks of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""An array of any dtype; the docstrings give its shape."""
FloatArray = NDArray[np.float64]

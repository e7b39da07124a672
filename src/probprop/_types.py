"""The types of arrays that every room speaks of."""

from __future__ import annotations

from typing import Any

import numpy as np

# Not NDArray: from NumPy 2.5 on it is an alias of which get_origin, in io.py, says nothing.
Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
"""An array of any dtype; the docstrings give its shape."""
FloatArray = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]

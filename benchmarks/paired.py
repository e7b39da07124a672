"""Means over repetitions that two ways share, and the mean of their differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mean(values: Sequence[float], decimals: int) -> str:
    return _signed(float(np.mean(values)), decimals)


def difference(values: Sequence[float], others: Sequence[float], decimals: int) -> str:
    """Return the mean of values - others, pair by pair, ± its standard error."""
    gaps = np.subtract(values, others)
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    return f"{_signed(float(gaps.mean()), decimals)} ± {error:.{decimals}f}"


def _signed(value: float, decimals: int) -> str:
    """Write a number with a real minus sign, as the pages do, and zero without one."""
    text = f"{value:.{decimals}f}"
    return f"−{text[1:]}" if text.startswith("-") and float(text) else text.lstrip("-")

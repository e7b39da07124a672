"""Means over repetitions that two ways share, and the mean of their differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mean(values: Sequence[float], decimals: int) -> str:
    return _signed(float(np.mean(values)), decimals)


def brief(values: Sequence[float]) -> str:
    """Return the mean with four digits and no exponent.

    Examples
    --------
    >>> brief([82_450.3]), brief([0.2, 0.3])
    ('82,450', '0.25')
    """
    return f"{float(f'{np.mean(values):.4g}'):,g}"


def difference(values: Sequence[float], others: Sequence[float], decimals: int) -> str:
    """Return the mean of values - others, pair by pair, ± its standard error."""
    gaps = np.subtract(values, others)
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    return f"{_signed(float(gaps.mean()), decimals)} ± {error:.{decimals}f}"


def change(values: Sequence[float], others: Sequence[float], decimals: int = 1) -> str:
    """Return the same in percent of the mean of the others.

    Examples
    --------
    >>> change([1.0, 2.0], [2.0, 2.0])
    '−25.0 ± 25.0'
    """
    unit = float(np.mean(others)) / 100.0
    return difference(np.divide(values, unit).tolist(), np.divide(others, unit).tolist(), decimals)


def verdict(values: Sequence[float], others: Sequence[float]) -> int:
    """Return the sign of the mean difference where it exceeds two standard errors, else 0.

    Examples
    --------
    >>> verdict([1.0, 1.2], [2.0, 2.0]), verdict([1.0, 3.0], [2.0, 1.9])
    (-1, 0)
    """
    gaps = np.subtract(values, others)
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    return int(np.sign(gaps.mean())) if abs(gaps.mean()) > 2.0 * error else 0


def _signed(value: float, decimals: int) -> str:
    """Write a number with a real minus sign, as the pages do, and zero without one."""
    text = f"{value:.{decimals}f}"
    return f"−{text[1:]}" if text.startswith("-") and float(text) else text.lstrip("-")

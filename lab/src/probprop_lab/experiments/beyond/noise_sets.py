"""Synthetic data with homoscedastic noise: what noise="input" loses where it cannot gain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from probprop._types import Array

NOISE_STD = 0.3
N_TEST = 2000
N_REPEATS = 10
_HALF_WIDTH = 2.0  # features are uniform between minus and plus this


class Size(NamedTuple):
    """Training samples and features of a synthetic set."""

    n: int
    d: int


SIZES = {f"made_{n}x{d}": Size(n, d) for d in (1, 3, 5, 10) for n in (100, 300, 1000, 3000)}
"""The sets by name: rows, then features."""


def split_names(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split names into synthetic sets and others.

    Examples
    --------
    >>> split_names(["yacht", "made_300x3"])
    (['made_300x3'], ['yacht'])
    """
    given = list(names)
    return [k for k in given if k in SIZES], [k for k in given if k not in SIZES]


def truth(X: Array) -> Array:
    """Return the mean of the target: waves along every feature, of variance about 0.5 in all.

    Parameters
    ----------
    X : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n,)
    """
    d = X.shape[1]
    waves: Array = np.sin(1.5 * X + np.arange(d)).sum(axis=1) / np.sqrt(d)
    return waves


def load(name: str, repeat: int) -> tuple[Array, Array, Array, Array]:
    """Draw X_train, y_train, X_test, y_test of a synthetic set.

    Parameters
    ----------
    name : str
        One of `SIZES`.
    repeat : int
        From 0; each has its own draw.

    Examples
    --------
    >>> X_train, y_train, X_test, y_test = load("made_300x3", 0)
    >>> X_train.shape, X_test.shape
    ((300, 3), (2000, 3))
    """
    n, d = SIZES[name]
    rng = np.random.default_rng([n, d, repeat])
    X = rng.uniform(-_HALF_WIDTH, _HALF_WIDTH, (n + N_TEST, d))
    y = truth(X) + NOISE_STD * rng.standard_normal(n + N_TEST)
    return X[:n], y[:n], X[n:], y[n:]

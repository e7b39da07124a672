"""Splits of synthetic data, for measurements that read benchmark sets."""

from __future__ import annotations

import numpy as np

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def linear(seed: int, n_train: int, n_test: int, n_features: int) -> Parts:
    """Return X, y, X_test and y_test of a linear function of the first two features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_train + n_test, n_features))
    y = X[:, 0] - 2.0 * X[:, 1] + 0.3 * rng.standard_normal(len(X))
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def sharp(seed: int, n_train: int, n_test: int) -> Parts:
    """Return the same of a sharp function of one column, and a column of two values."""
    rng, n = np.random.default_rng(seed), n_train + n_test
    X = np.column_stack([rng.uniform(-3.0, 3.0, n), rng.integers(0, 2, n)])
    y = np.sign(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]

"""The first fit of a new user; its imports are inside, because they are timed."""

from __future__ import annotations


def first_fit() -> float:
    """Fit 500 rows of 13 features with the defaults; return the noise variance learned."""
    import numpy as np

    from probprop import PBPRegressor

    rng = np.random.RandomState(0)
    X = rng.standard_normal((500, 13))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(500)
    return PBPRegressor(random_state=0).fit(X, y).noise_variance_

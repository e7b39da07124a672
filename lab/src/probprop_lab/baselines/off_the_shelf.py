"""Other models of scikit-learn, with default parameters, mean and standard deviation.

Each has ``fit(X, y)`` and ``predict(X, return_std=True)``; the standard deviations are in target
units and include the noise. Parameters have their defaults; exceptions are named where they
are set. Some have no noise of their own: theirs is estimated from rows they were not fitted on, as
the residuals of a flexible model on its training rows are too small.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.cli.methods import LARGEST_SEED, gaussian_process
from probprop_lab.baselines.with_std import Random, WithStd

_NOISE_FLOOR = 0.01  # least share of the out-of-bag error that is noise


class GaussianProcessARD(WithStd):
    """Gaussian process with a length scale per feature (`gaussian_process`).

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
    """

    def __init__(self, random_state: Random = None) -> None:
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to X, (n, d), and y, (n,)."""
        self.model_ = gaussian_process(np.ones(X.shape[1]), self.random_state).fit(X, y)
        return self

    def moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means and standard deviations, (n,) each, in target units."""
        mean, std = self.model_.predict(X, return_std=True)  # white noise is part of the kernel
        return mean, std


class MLPBootstrap(WithStd):
    """Networks of scikit-learn, each fitted on a bootstrap sample.

    The mean is averaged over the members. The variance is their spread plus a noise variance, the
    same in every row, from out-of-bag predictions (`out_of_bag_noise`).

    A member is `MLPRegressor` with its defaults, 100 hidden units, but for `max_iter`, which is
    1,000: with the default of 200 it warns on small sets that it has not converged. Features
    and target are standardized.

    Parameters
    ----------
    n_members : int, default=10
    max_iter : int, default=1000
    random_state : int, RandomState instance or None, default=None
    """

    def __init__(
        self, n_members: int = 10, max_iter: int = 1000, random_state: Random = None
    ) -> None:
        self.n_members = n_members
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to X, (n, d), and y, (n,)."""
        random = check_random_state(self.random_state)
        unseen = np.full((self.n_members, len(y)), np.nan)
        self.members_: list[Any] = []
        for k in range(self.n_members):
            network = MLPRegressor(
                max_iter=self.max_iter, random_state=random.randint(LARGEST_SEED)
            )
            member = TransformedTargetRegressor(
                make_pipeline(StandardScaler(), network), transformer=StandardScaler()
            )
            rows = random.randint(len(y), size=len(y))
            others = np.setdiff1d(np.arange(len(y)), rows)
            self.members_.append(member.fit(X[rows], y[rows]))
            unseen[k, others] = member.predict(X[others])
        self.noise_variance_ = out_of_bag_noise(y, unseen)
        return self

    def moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means and standard deviations, (n,) each, in target units."""
        predicted = np.array([member.predict(X) for member in self.members_])  # (n_members, n)
        variance = predicted.var(axis=0, ddof=1) + self.noise_variance_
        return predicted.mean(axis=0), np.sqrt(variance)


def out_of_bag_noise(y: Array, unseen: Array) -> float:
    """Return the noise variance of a bootstrap ensemble from the rows its members have not seen.

    It is the mean of squared error minus spread, both over the members that have not seen the
    row, so that noise and spread together are as large as the errors on new rows. At least a
    hundredth of the squared error is attributed to noise.

    Parameters
    ----------
    y : ndarray of shape (n,)
    unseen : ndarray of shape (n_members, n)
        Predictions; NaN where the member was fitted on the row.

    Raises
    ------
    ValueError
        No row was left out by two members.

    Examples
    --------
    >>> out_of_bag_noise(np.array([3.0, 5.0]), np.array([[1.0, np.nan], [2.0, 5.0]]))
    1.75
    """
    twice = np.sum(~np.isnan(unseen), axis=0) >= 2  # else there is no spread
    if not np.any(twice):
        raise ValueError(
            f"No row was left out by two of {len(unseen)} members: give more rows or members."
        )
    squared = (y[twice] - np.nanmean(unseen[:, twice], axis=0)) ** 2
    spread = np.nanvar(unseen[:, twice], axis=0, ddof=1)
    return max(float(np.mean(squared - spread)), _NOISE_FLOOR * float(np.mean(squared)))

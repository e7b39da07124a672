"""Hyperparameters by Bayesian optimization: as in [PBP15] section 5.1 for BP and VI."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from bayes_opt.acquisition import ExpectedImprovement
from bayes_opt.target_space import TargetSpace
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.estimators.validation import check_inputs, check_int
from probprop.metrics import rmse
from probprop_lab.baselines.base import Baseline, check_training_data
from probprop_lab.clock import processor_seconds

Range = tuple[float, float] | tuple[float, float, str]
Scoring = Literal["rmse", "log_likelihood"]

BACKPROP_SPACE: dict[str, Range] = {
    "learning_rate": (1e-4, 1.0, "log"),
    "momentum": (0.0, 0.98),
    "weight_decay": (1e-7, 1e-2, "log"),
}
"""Where to look for the hyperparameters of `BackpropRegressor`."""

VARIATIONAL_SPACE: dict[str, Range] = {
    "learning_rate": (1e-4, 1.0, "log"),
    "momentum": (0.0, 0.98),
    "initial_std": (0.03, 1.0, "log"),
}
"""Where to look for the hyperparameters of `VariationalRegressor`.

Differs from [PBP15] section 5.1, which names the first two only: no initial standard deviation
suits all its sets, and the paper does not print its own.
"""

_VALIDATION_SHARE = 0.2  # [PBP15] section 5.1
_N_INITIAL = 5  # random evaluations before the Gaussian process chooses
_LEAST_RATIO = 1e-9  # of errors: the logarithm of 0 would be infinite


class Evaluation(NamedTuple):
    """One configuration of a search.

    Parameters
    ----------
    params : dict
    rmse : float
        On the validation part, in target units; infinite where training diverged.
    log_likelihood : float
        There, per row; minus infinity where training diverged.
    seconds : float
        Time of fitting and predicting.
    """

    params: dict[str, float]
    rmse: float
    log_likelihood: float
    seconds: float


_ORDERS: dict[Scoring, Callable[[Evaluation], float]] = {
    "rmse": lambda found: found.rmse,
    "log_likelihood": lambda found: -found.log_likelihood,
}  # the lower, the better


class TunedRegressor(Baseline):
    """A regressor whose hyperparameters are found by Bayesian optimization.

    The protocol of [PBP15] for BP and VI: a fifth of the training data, drawn at random, is for
    validation. `n_iter` configurations in turn are fitted on the rest; the next one is where a
    Gaussian process, fitted to those before, expects the most improvement. The one with the
    best score is fitted on all of the training data (if that diverges, the next best). The
    paper says only "predictive performance". For BP, which predicts points, the experiments take
    the error; for VI the log-likelihood: its error alone does not distinguish a wide q from a
    narrow one.

    The Gaussian process models the log-likelihood, or minus the logarithm of the error. A
    configuration that does no better than the mean of the targets (and their variance), or whose
    `fit` raises FloatingPointError, counts as the mean of the targets.

    Parameters
    ----------
    estimator : regressor
        It needs `predict_distribution`.
    space : mapping of str to tuple
        The range (low, high) of each hyperparameter, or (low, high, "log") to search in its
        logarithm.
    n_iter : int, default=30
        Configurations evaluated.
    scoring : {"rmse", "log_likelihood"}, default="rmse"
        What is compared on the validation part: the root mean squared error of the mean, or the
        log-likelihood.
    random_state : int, RandomState instance or None, default=None
        Draws the validation part, the search and, where the estimator has `random_state=None`,
        one seed with which all the fits are made.

    Attributes
    ----------
    best_estimator_ : regressor
        Fitted on all of the training data.
    best_params_ : dict
    search_results_ : list of Evaluation
        In the order they were made.
    fit_seconds_ : float
        Time of the whole fit, the search included.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names.

    References
    ----------
    .. [PBP15] J. M. Hernández-Lobato and R. P. Adams, "Probabilistic Backpropagation for
       Scalable Learning of Bayesian Neural Networks", ICML 2015.
    """

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Range],
        *,
        n_iter: int = 30,
        scoring: Scoring = "rmse",
        random_state: int | RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.n_iter = n_iter
        self.scoring = scoring
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Search on four fifths of the data, validate on the rest, then fit on all of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        FloatingPointError
            Training diverged with every configuration.
        """
        start = processor_seconds()
        check_int("n_iter", self.n_iter, 1)
        _check_space(self.space)
        if self.scoring not in _ORDERS:
            known = " or ".join(repr(name) for name in _ORDERS)
            raise ValueError(f"scoring must be {known}. Got {self.scoring!r} instead.")
        rows, targets = check_training_data(self, X, y)
        random_state = check_random_state(self.random_state)
        estimator = _seeded(self.estimator, random_state)
        parts = train_test_split(
            rows, targets, test_size=_VALIDATION_SHARE, random_state=random_state
        )
        reference = _of_the_mean(*parts[2:])

        results: list[Evaluation] = []

        def score(params: dict[str, float]) -> float:
            results.append(_evaluate(estimator, params, *parts))
            return _gain(results[-1], reference, self.scoring)

        maximize(score, self.space, self.n_iter, random_state)
        best_first = sorted(results, key=_ORDERS[self.scoring])
        fitted, params = _refit(estimator, best_first, rows, targets)
        self.best_estimator_ = fitted
        self.best_params_ = params
        self.search_results_ = results
        self.fit_seconds_ = processor_seconds() - start
        return self

    def predict_distribution(self, X: ArrayLike) -> TargetDistribution:
        """Return the predictive distribution of `best_estimator_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        TargetDistribution
            In target units.
        """
        check_is_fitted(self)
        rows = check_inputs(self, X)
        found: TargetDistribution = self.best_estimator_.predict_distribution(rows)
        return found


def tuned(
    estimator: Any,
    space: Mapping[str, Range],
    n_iter: int = 30,
    scoring: Scoring = "rmse",
    random_state: int | RandomState | None = None,
) -> TunedRegressor:
    """Return the estimator with its hyperparameters found by Bayesian optimization.

    Parameters
    ----------
    estimator : regressor
    space : mapping of str to tuple
        (low, high) or (low, high, "log"); see `BACKPROP_SPACE` and `VARIATIONAL_SPACE`.
    n_iter : int, default=30
    scoring : {"rmse", "log_likelihood"}, default="rmse"
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    TunedRegressor
        Not yet fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop_lab.baselines import BackpropRegressor, tuned
    >>> from probprop_lab.baselines.tuning import BACKPROP_SPACE
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = tuned(BackpropRegressor(10, n_epochs=2), BACKPROP_SPACE, n_iter=6, random_state=0)
    >>> sorted(model.fit(X, y).best_params_)
    ['learning_rate', 'momentum', 'weight_decay']
    """
    return TunedRegressor(
        estimator, space, n_iter=n_iter, scoring=scoring, random_state=random_state
    )


def maximize(
    score: Callable[[dict[str, float]], float],
    space: Mapping[str, Range],
    n_iter: int,
    random_state: RandomState,
) -> None:
    """Evaluate `n_iter` configurations, each where the expected improvement is largest.

    Parameters
    ----------
    score : callable
        From a configuration to a finite number, the higher the better.
    space : mapping of str to tuple
    n_iter : int
    random_state : RandomState
    """
    # The search is in the unit cube, where one length scale per side is a fair start.
    cube = TargetSpace(None, dict.fromkeys(space, (0.0, 1.0)), random_state=random_state)
    kernel = Matern(np.full(len(space), 0.5), (0.05, 20.0), nu=2.5) + WhiteKernel(1e-3, (1e-6, 1.0))
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=random_state)
    improvement = ExpectedImprovement(xi=0.0)
    for i in range(n_iter):
        u: Array = random_state.uniform(size=len(space))
        if i >= _N_INITIAL:
            best = improvement.suggest(
                process, cube, n_random=1000, n_smart=2, random_state=random_state
            )
            if best not in cube:  # else no point is better than an evaluated one
                u = best
        cube.register(u, score(_configuration(space, u)))


def _configuration(space: Mapping[str, Range], u: Array) -> dict[str, float]:
    """Return the hyperparameters at a point of the unit cube."""
    params = {}
    for (name, (low, high, *scale)), share in zip(space.items(), u, strict=True):
        value = low * (high / low) ** share if scale else low + (high - low) * share
        params[name] = float(min(max(value, low), high))  # against rounding
    return params


def _evaluate(
    estimator: Any,
    params: dict[str, float],
    X_train: Array,
    X_validation: Array,
    y_train: FloatArray,
    y_validation: FloatArray,
) -> Evaluation:
    start = processor_seconds()
    candidate = clone(estimator).set_params(**params)
    try:
        predicted = candidate.fit(X_train, y_train).predict_distribution(X_validation)
        error = rmse(y_validation, predicted.mean)
        log_likelihood = float(np.mean(predicted.logpdf(y_validation)))
    except FloatingPointError:
        error, log_likelihood = math.inf, -math.inf
    return Evaluation(params, error, log_likelihood, processor_seconds() - start)


def _of_the_mean(y_train: FloatArray, y_validation: FloatArray) -> Evaluation:
    """Return what the mean of the targets is worth, with their standard deviation."""
    std = y_train.std() or 1.0
    z = (y_validation - y_train.mean()) / std
    log_likelihood = -0.5 * float(np.mean(z**2)) - math.log(std) - 0.5 * math.log(2.0 * math.pi)
    error = rmse(y_validation, np.full_like(y_validation, y_train.mean())) or 1.0
    return Evaluation({}, error, log_likelihood, 0.0)


def _gain(found: Evaluation, reference: Evaluation, scoring: Scoring) -> float:
    """Return how much better it is than the mean of the targets; 0 where it is no better."""
    if scoring == "log_likelihood":
        return max(found.log_likelihood - reference.log_likelihood, 0.0)
    ratio = min(found.rmse / reference.rmse, 1.0)
    return -math.log(max(ratio, _LEAST_RATIO))


def _refit(
    estimator: Any, results: list[Evaluation], X: Array, y: FloatArray
) -> tuple[Any, dict[str, float]]:
    """Fit the first configuration on all the data; where that diverges, the next."""
    for params, error, *_ in results:
        if math.isfinite(error):
            try:
                return clone(estimator).set_params(**params).fit(X, y), params
            except FloatingPointError:
                continue
    raise FloatingPointError(
        f"Training diverged with each of the {len(results)} configurations: lower the ranges "
        "in 'space'."
    )


def _seeded(estimator: Any, random_state: RandomState) -> Any:
    """Return a copy with a seed, the same for all: configurations differ in nothing else."""
    copy = clone(estimator)
    if copy.get_params().get("random_state", 0) is None:
        copy.set_params(random_state=random_state.randint(2**31))
    return copy


def _check_space(space: Mapping[str, Range]) -> None:
    if not space:
        raise ValueError("space must have at least one hyperparameter. Got {} instead.")
    for name, bounds in space.items():
        ends, scale = bounds[:2], bounds[2:]
        if (
            len(ends) != 2
            or scale not in ((), ("log",))
            or not all(isinstance(end, Real) and math.isfinite(end) for end in ends)
            or not ends[0] < ends[1]
            or (scale and not ends[0] > 0.0)
        ):
            raise ValueError(
                f"space[{name!r}] must be (low, high) with low < high, or (low, high, 'log') "
                f"with 0 < low < high. Got {bounds!r} instead."
            )

"""PBPRegressorCV: the best predictions without tuning, by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.base import publish
from probprop.estimators.cv.calibration import Calibration, calibrate
from probprop.estimators.cv.candidates import Budget, Candidate, read_budget, read_candidates
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut, encoded, make_folds
from probprop.estimators.cv.progress import RaceBar
from probprop.estimators.cv.race import Race, race
from probprop.estimators.cv.runners import CVChoice
from probprop.estimators.data import Given, read_inputs, read_values
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_parameters
from probprop.inference.history import warn_of_counts
from probprop.inference.likelihoods import Gaussian
from probprop.predictive.heavy import HeavyMixture, HeavyPredictive
from probprop.predictive.mixture import Mixture


class PBPRegressorCV(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by PBP networks that are chosen, calibrated and averaged by cross-validation.

    Candidates, which differ in the encoding of the features, in depth and in memory, train side
    by side on the folds, and are compared again and again by the log-likelihood of the rows held
    out; those that fall behind are dropped. The networks of the winner's folds are the ensemble:
    nothing is trained again. Their variances are calibrated on the rows held out, by one factor,
    and a small network learns there where the noise is larger, if that helps.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test), default=5
        An int is that many folds of shuffled rows, or of groups where `fit` is given some; fewer
        where there are not as many. Else a splitter of scikit-learn, or what one yields.
    candidates : "auto" or sequence of Candidate or dict, default="auto"
        What is compared. "auto": columns alone or with 32 ramps each (64 from 5,000 rows on), one
        or two layers of 50, memory 10, 30 or none.
    budget : {"fast", "good", "best"} or float, default="good"
        How long candidates train, and how many there are in "auto": "fast", up to 80 epochs, one
        layer, memory 10; "good", up to 320 epochs; "best", up to 1,280 epochs, with 128 ramps and
        two layers of 100 too. A number is seconds of processor time, all threads together, of the
        whole process: candidates that cost too much are left out, and the result depends on the
        speed of the machine.
    dtype : {"float64", "float32"}, default="float32"
        Precision of the weights.
    n_jobs : int, default=None
        Threads to train with; None is 1 outside of a ``joblib.parallel_config``, -1 all
        processors. It does not change the results.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows into folds, and draws the seeds of the networks.
    verbose : int, default=0
        1 shows a progress bar on the standard error.

    Attributes
    ----------
    estimators_ : list of PBPRegressor
        The network of every fold. They take rows as `encoding_` gives them, and are not
        calibrated.
    encoding_ : PiecewiseLinear or None
        How the features are encoded for them; None: not at all.
    choice_ : CVChoice
        The curves of all candidates, and which was chosen.
    calibration_ : Calibration
        The factor of the variances, and the noise network if there is one.
    oof_predictive_ : Mixture or HeavyPredictive
        The calibrated predictive distribution of the rows held out, each by the network that had
        not seen it.
    oof_rows_ : ndarray of int
        The rows that these are, ascending; with an int `cv` all.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names. The members take arrays.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop import PBPRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PBPRegressorCV(budget="fast", random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    >>> model.choice_.candidate
    Candidate(n_bins=None, hidden=(50,), memory=10.0)
    """

    estimators_: list[PBPRegressor]
    encoding_: PiecewiseLinear | None
    choice_: CVChoice
    calibration_: Calibration
    oof_predictive_: Mixture | HeavyPredictive
    oof_rows_: Array

    def __init__(
        self,
        cv: Any = 5,
        *,
        candidates: Literal["auto"] | Sequence[Candidate | Mapping[str, Any]] = "auto",
        budget: Literal["fast", "good", "best"] | float = "good",
        dtype: Literal["float64", "float32"] = "float32",
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.cv = cv
        self.candidates = candidates
        self.budget = budget
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ---- Training

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: ArrayLike | None = None) -> Self:
        """Compare the candidates, and keep the networks of the best one, calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least 2 rows.
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are never parted into different folds, if `cv` is an int or a
            splitter that knows groups.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C ends the comparison within half a second. The best so far is calibrated and kept,
        with a warning; before the first comparison, and during calibration, the estimator is left
        as it was.
        """
        check_parameters(self)
        budget = read_budget(self.budget)
        before = vars(self).copy()
        try:
            found = self._fit(X, y, groups, budget)
        except BaseException:  # Ctrl-C too
            self.__dict__ = before
            raise
        if found.interrupted:
            warnings.warn(
                "Ctrl-C ended the comparison of the candidates. The best so far is kept: "
                f"{found.choice}.",
                RuntimeWarning,
                stacklevel=2,
            )
        warn_of_counts([epoch for member in self.estimators_ for epoch in member.history_])
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None, budget: Budget) -> Race:
        data = read_values(self, Given(X, y), None, Gaussian().noise_prior)
        rows, targets = data.X.X, data.y
        _check_rows(targets)
        candidates = read_candidates(self.candidates, self.budget, len(targets))
        rng = check_random_state(self.random_state)
        folds = make_folds(self.cv, rows, targets, groups, rng)
        encodings = Encodings(rows, np.dtype(self.dtype))
        n_threads = effective_n_jobs(self.n_jobs)
        bar = RaceBar() if self.verbose else None
        found = race(candidates, encodings, targets, folds, budget, n_threads=n_threads, report=bar)
        if bar is not None:
            bar.close()
        held_out, seed = HeldOut(folds), rng.randint(2**31 - 1)
        calibrated = calibrate(found.check.oof, held_out, encodings, seed, n_threads)
        n_bins = found.choice.candidate.n_bins
        self.encoding_ = None if n_bins is None else encodings.state(n_bins)
        self.estimators_ = members(found, folds, self.dtype)
        self.choice_ = found.choice
        self.calibration_, self.oof_predictive_ = calibrated
        self.oof_rows_ = held_out.rows
        return found

    # ---- Prediction

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = ...) -> FloatArray: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean of the target and, if asked, its standard deviation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            In target units.
        std : ndarray of shape (n_samples,)
            Standard deviation of the target, noise included, in target units; only with
            ``return_std=True``.
        """
        predictive = self.predict_distribution(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_distribution(self, X: ArrayLike) -> Mixture | HeavyMixture:
        """Return the predictive distribution of the target for every row.

        It is the mixture of the members, with calibrated variances. With a noise network h(x),
        the noise variance of a row is log-normal. Far from the data, where nothing is known about
        the noise, the variance of its logarithm is taken to be at most 4 and its mean within 20.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Mixture, or HeavyMixture
            The latter where ``calibration_.noise`` is not None.
        """
        check_is_fitted(self)
        rows = read_inputs(self, X, None).X
        A = encoded(rows, self.encoding_, np.dtype(self.estimators_[0].dtype))
        predictions: list[Any] = [member.predict_distribution(A) for member in self.estimators_]
        return self.calibration_.mixture(predictions, rows)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are members: checks of data that failed leave other traces."""
        return hasattr(self, "estimators_")


def members(found: Race, folds: Sequence[Fold], dtype: Any) -> list[PBPRegressor]:
    """Return the networks of the folds as estimators of their own, on encoded rows."""
    candidate, check = found.choice.candidate, found.check
    estimators = []
    for fold, fitted, history in zip(folds, check.fitted, check.history, strict=True):
        member = PBPRegressor(
            candidate.layers,
            n_epochs=check.n_epochs,
            memory=candidate.memory,
            dtype=dtype,
            random_state=fold.seed,
        )
        member.n_features_in_ = len(fitted.standardizer.x_mean)
        member.likelihood_ = Gaussian()
        publish(member, fitted, history)
        estimators.append(member)
    return estimators


def _check_rows(y: Array) -> None:
    """Refuse several targets, and a single row, which cannot be held out."""
    if y.ndim > 1:
        raise ValueError(
            f"PBPRegressorCV takes one target, but y has {y.shape[1]} columns. Fit one estimator "
            "per target, for example with sklearn.multioutput.MultiOutputRegressor, or use "
            "PBPRegressor, which takes several."
        )
    if len(y) < 2:
        raise ValueError(
            "PBPRegressorCV needs at least 2 rows, so that one can be held out. "
            f"Got n_samples = {len(y)}."
        )

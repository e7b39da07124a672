"""PBPRegressorCV: the best predictions without tuning, by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import FloatArray
from probprop.distributions.base import Moments
from probprop.distributions.functions import Sensitivity
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture
from probprop.estimators.base import DistributionMixin
from probprop.estimators.cv.base import PBPEstimatorCV
from probprop.estimators.cv.calibration import Calibration, ValuesJudge
from probprop.estimators.cv.sensitivity import SampledFunction, sensitivity_of_mixture
from probprop.estimators.data import Given, TrainingData, noise_factor, read_values
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_inputs, check_int
from probprop.inference.history import warn_of_counts
from probprop.inference.likelihoods import Gaussian


class PBPRegressorCV(DistributionMixin, RegressorMixin, PBPEstimatorCV):  # type: ignore[misc]
    """Regression by PBP networks selected, calibrated and averaged by cross-validation.

    Candidates, which differ in the encoding of the features, in depth and in memory, train side by
    side on the folds. They are compared by the log-likelihood of out-of-fold samples, and those
    that fall behind are dropped. The networks of the winner's folds are the ensemble: nothing is
    trained again. Their variances are calibrated by one factor on out-of-fold samples, and a small
    network learns heteroscedastic noise there, if that helps.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test), default=5
        An int, at least 2, is the number of folds of shuffled samples, or of the groups passed to
        `fit`; fewer if there are fewer of them. Else a splitter of scikit-learn, or what one
        yields.
    candidates : "auto" or sequence of Candidate or dict, default="auto"
        What is compared. "auto": columns alone or with 32 ramps each (64 from 5,000 samples on),
        one or two layers of 50, memory 10, 30 or none. If there are 100 samples or more, all
        targets are above 0 and their errors grow with them, the best candidate is also tried with
        a power of the targets, which is used if it gains two standard errors on out-of-fold
        samples.
    budget : {"fast", "good", "best"} or float, default="good"
        "fast": up to 80 epochs, one layer, memory 10; "good": up to 320 epochs; "best": up to 1,280
        epochs, with 128 ramps and two layers of 100 too. A number above 0 is seconds of processor
        time, all threads together. The result then depends on the speed of the machine: candidates
        that cost too much are left out, and if time is left, the best one is trained on further
        partitions, up to six in all.
    missing : {"error", "marginalize"}, default="error"
        How NaN in X is treated: as an error, or as a missing value. A sample with missing values is
        completed in 32 ways from its other values, by a joint distribution of the features that
        `fit` learns, and its prediction is the mean over these. Masked out-of-fold samples
        calibrate how much less certain it is.
    dtype : {"float64", "float32"}, default="float32"
        Precision of the weights.
    n_jobs : int, default=None
        Number of threads; None is 1 outside of a ``joblib.parallel_config``, -1 all processors.
        Under ``joblib.parallel_config("dask")`` all workers of the cluster train. The result does
        not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the samples into folds, and draws the seeds of the networks.
    verbose : int, default=0
        1 shows a progress bar on the standard error.

    Attributes
    ----------
    estimators_ : list of PBPRegressor
        The network of every fold, partition after partition, not calibrated. They take samples as
        encoded by `encoding_`, and predict targets as given by ``calibration_.transformation``.
    n_partitions_ : int
        Number of K-fold partitions: 2 with an int `cv` and fewer than 5,000 samples, or 100,000 and
        more, else 1; up to 6 with an int `cv` and a `budget` in seconds.
    bounds_ : InputBounds
        Range of each feature. Values beyond it grow ever more slowly, in most features by at most a
        quarter of the range. `encoding_` is applied to bounded samples.
    encoding_ : PiecewiseLinear or None
        Encoder applied to the features before the members, or None if they are used as is.
    choice_ : CVChoice
        The curves of all candidates, which was chosen, and why nothing more was trained.
    calibration_ : Calibration
        The factor of the variances, and the noise network if there is one.
    joint_ : Joint or None
        Joint distribution of the features, which completes missing values, or None.
    oof_predictive_ : Mixture or TransformedMixture
        Calibrated out-of-fold predictive distribution of the samples of `fit`, by the networks of
        all partitions that had not seen them, with the noise of a sample of its weight.
    oof_rows_ : ndarray of int
        Rows of these predictions; with an int `cv` and fewer than 100,000 samples, all rows of a
        weight above 0, ascending.
    n_iter_ : int
        Maximum number of epochs of a member.
    n_samples_seen_ : int
        Number of samples passed to `fit` and `partial_fit`.
    mean_sample_weight_ : float
        Mean of the sample weights above 0 in `fit`, by which all weights are divided, or 1.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X had string column names. The members take arrays.

    Notes
    -----
    From 100,000 samples on, a network is shown as many samples as the epochs of the `budget` show
    of 25,000: 14 epochs of 600,000 samples with "good". One network of each candidate, of memory 10
    in "auto", decides on 20,000 validation samples. With an int `cv` and without groups there are
    four networks: two for each of two validation sets of 20,000 samples, trained on all others.

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
    Candidate(n_bins=None, hidden=(50,), memory=10.0, power=0.5)
    """

    _member = PBPRegressor

    estimators_: list[PBPRegressor]
    calibration_: Calibration
    oof_predictive_: Mixture | TransformedMixture
    likelihood_: Gaussian

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        y_std: ArrayLike | None = None,
    ) -> Self:
        """Update the model with new samples. The first call is equivalent to `fit`.

        Each sample belongs to one fold, in turn. The network of that fold predicts it before the
        others make one pass over it, in the order given; that updates the calibration too.
        Encoding, choice, `oof_predictive_` and `oof_rows_` stay as `fit` left them. Ctrl-C, or an
        error, leaves the estimator as it was before the call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Above 0 where the members predict a power of the target.
        sample_weight : array-like of shape (n_samples,), default=None
            In the units of `fit`, and divided by its mean weight; None is that mean weight.
        y_std : None
            As in `fit`.

        Returns
        -------
        self
        """
        epochs = self._go_on(Given(X, y, sample_weight, y_std=y_std))
        warn_of_counts(epochs, self.estimators_[0].posterior_)
        return self

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = ...) -> FloatArray: ...
    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean of the target, in target units, (n_samples,).

        With ``return_std=True`` also its standard deviation, noise included. X has the shape
        (n_samples, n_features).
        """
        check_is_fitted(self)
        if return_std or self.calibration_.transformation is not None:
            predictive = self.predict_distribution(X)
            return (predictive.mean, predictive.std) if return_std else predictive.mean
        y_mean, y_scale = self._target_units
        mean: FloatArray = (self._outputs(X).mean * y_scale + y_mean).mean(axis=0)
        return mean

    def predict_distribution(
        self, X: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Mixture | TransformedMixture:
        """Return the calibrated predictive distribution, a mixture of the members, of every sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights above 0, in the units of `fit`: a sample of weight w has the noise variance of
            weight 1 divided by w. None is the mean weight in `fit`.

        Returns
        -------
        Mixture or TransformedMixture
            In target units. The second if ``calibration_.transformation``, a Box-Cox transformation
            of the target, is not None.
        """
        outputs = self._outputs(X)
        y_mean, y_scale = self._target_units
        noise = np.sqrt(_stacked([m.posterior_.noise_variance for m in self.estimators_]))
        members = Moments(
            outputs.mean * y_scale + y_mean, np.sqrt(outputs.variance) * y_scale, noise * y_scale
        )
        factor = noise_factor(self, sample_weight, outputs.rows)
        return self.calibration_.mixture(members, outputs.rows, outputs.log_scale, factor)

    @property
    def _target_units(self) -> tuple[FloatArray, FloatArray]:
        """Mean and scale of the targets of each member."""
        of = [member.standardizer_ for member in self.estimators_]
        return _stacked([s.y_mean for s in of]), _stacked([s.y_scale for s in of])

    def predict_gradient(self, X: ArrayLike) -> Sensitivity:
        """Return mean and standard deviation for every sample, with gradients by the features.

        Returns
        -------
        Sensitivity
            ``mean`` and ``std`` as `predict` gives them; ``dmean_dX`` and ``dstd_dX`` of shape
            (n_samples, n_features), in target units per unit of the feature. At the kinks of
            encoded features the gradient is the one above; of an infinite value it is NaN.
        """
        check_is_fitted(self)
        parts = (self.estimators_, self.bounds_, self.encoding_, self.calibration_)
        return sensitivity_of_mixture(*parts, check_inputs(self, X))

    def sample_functions(
        self, n: int = 1, random_state: int | RandomState | None = None
    ) -> list[SampledFunction]:
        """Sample functions from the calibrated posterior of a randomly chosen member.

        Each of the n functions is deterministic: ``f(X)`` has shape (n_samples,), in target units.
        `random_state` is an int, a RandomState instance or None.
        """
        check_is_fitted(self)
        check_int("n", n, 1)
        rng, box, drawn = check_random_state(random_state), self.calibration_.range, []
        for _ in range(n):
            member = self.estimators_[rng.randint(len(self.estimators_))]
            [network] = member.sample_functions(1, rng)
            slopes = box.slope * rng.standard_normal(len(box.low))
            parts = (network, member, self.bounds_, self.encoding_, self.calibration_)
            drawn.append(SampledFunction(*parts, slopes))
        return drawn

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        return self.likelihood_.n_outputs

    def _read(
        self, given: Given, *, stream: bool, classes: ArrayLike | None = None
    ) -> TrainingData:
        if given.y_std is not None:
            raise ValueError(
                "PBPRegressorCV takes no known errors of the targets, y_std: it may predict a "
                "Box-Cox transformation of y. Leave y_std out, or use PBPRegressor or PBPEnsemble."
            )
        known = getattr(self, "likelihood_", None) if stream else None
        data = read_values(self, given, known, Gaussian().noise_prior)
        if known is not None:
            return data if (g := self.calibration_.transformation) is None else _on_scale(g, data)
        if data.y.ndim > 1:
            raise ValueError(
                f"PBPRegressorCV takes one target, but y has {data.y.shape[1]} columns. Fit one "
                "estimator per target, for example with sklearn.multioutput.MultiOutputRegressor, "
                "or use PBPRegressor, which takes several."
            )
        if len(data.y) < 2:
            raise ValueError(
                "PBPRegressorCV needs at least 2 rows, so that one can be held out. "
                f"Got n_samples = {len(data.y)}."
            )
        return data

    def _judge(self, likelihood: Any) -> ValuesJudge:
        return ValuesJudge(likelihood)


def _stacked(each: list[FloatArray]) -> FloatArray:
    """Return one value of each member, (1,), as an array of shape (S, 1)."""
    return np.concatenate(each)[:, np.newaxis]


def _on_scale(g: BoxCox, data: TrainingData) -> TrainingData:
    """Return targets as the members take them."""
    y = data.y
    bad = y[~(y > 0.0)]
    if bad.size:
        raise ValueError(
            "This PBPRegressorCV predicts a power of the targets, since all that it was fitted to "
            f"are above 0. Got {float(bad[0])}, and {bad.size} such targets in {y.size}. Leave "
            "them out, or fit again, with all rows or with `candidates` that have no power."
        )
    return replace(data, y=g.forward(y))

"""PBPRegressorCV: the best predictions without tuning, by cross-validation.

Derivatives by the features X follow by the chain rule, as the networks see bounded values, which
may be encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.distributions.base import Moments, average, short_repr
from probprop.distributions.functions import SampledNetwork, Sensitivity
from probprop.distributions.mixture import Mixture, SeveralTargets
from probprop.distributions.power import TransformedMixture
from probprop.distributions.recalibrated import Recalibrated
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear, encoded
from probprop.estimators import validation
from probprop.estimators.base import DistributionMixin, plan_of
from probprop.estimators.cv.base import Outputs, PBPEstimatorCV
from probprop.estimators.cv.calibration import Calibration, NoiseNetwork, Range, RegressionScorer
from probprop.estimators.cv.policy import Candidate
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import Given, TrainingData, check_inputs, check_int
from probprop.inference.inputs import Inputs, Samples
from probprop.inference.likelihoods import Gaussian, Scale
from probprop.inference.noise import LogScale
from probprop.inference.plan import Plan
from probprop.inference.prediction import SampledOutputLayer, member_moments, sensitivity_at
from probprop.inference.training import warn_of_counts

Predictive = Mixture | TransformedMixture | Recalibrated | SeveralTargets


class PBPRegressorCV(DistributionMixin, RegressorMixin, PBPEstimatorCV):  # type: ignore[misc]
    """Regression by PBP networks selected, calibrated and averaged by cross-validation.

    Candidates, which differ in the encoding of the features, in depth and in the evidence cap,
    are trained in parallel on folds. Successive halving with early stopping compares them by their
    out-of-fold log-likelihood. The prediction is a mixture of the best ones, stacked with weights
    that maximize this log-likelihood. A variance scaling factor is estimated on out-of-fold
    samples. A small network of heteroscedastic noise and a PIT recalibration of the shape are
    trained there, too, and used if they help.

    Parameters
    ----------
    cv : "auto", int, splitter or iterable of (train, test), default="auto"
        "auto" is five folds of shuffled samples, or of the groups passed to `fit`, fewer if there
        are fewer of them; from 5,000 samples on, see the notes. An int, at least 2, is another
        number of folds at any size. Otherwise a splitter of scikit-learn, or pairs (train, test).
    candidates : "auto" or sequence of Candidate or dict, default="auto"
        Candidates to compare. "auto": columns alone or with a piecewise-linear encoding with 16
        bins each (32 from 5,000 samples on), one or two layers of 48, and columns alone without a
        hidden layer; evidence cap 10 or 30, from 500 samples on with a prior per column for encoded
        candidates with cap 10. Columns of 3 to 64 whole numbers are codes in one more. If an exact
        output layer clearly improves the best candidate, all candidates are also compared with one.
        From 100 samples on, if all targets are above 0 and their errors grow with them, a Box-Cox
        transformation of the targets is used if it improves the out-of-fold log-likelihood by two
        standard errors.
    budget : {"fast", "good", "best"}, default="good"
        "fast": up to 80 epochs, one layer, evidence cap 10; "good": up to 320 epochs; "best": up to
        1,280 epochs, also with 64 bins and with two layers of 96.
    categorical_features : "from_dtype", sequence of str or int, or mask, default="from_dtype"
        Columns of X whose values are categories, as in `TableEncoder`. "from_dtype": in tables,
        category and text columns.
    support : "auto", None or tuple of (float or None, float or None), default="auto"
        Range of the target: the predictive distribution has no mass outside. None as an end
        means no bound. "auto": if there are 100 targets or more and none is negative, 0 is the
        lower end; if none is above 1 either, 1 is the upper end. None: no bounds.
    missing : {"auto", "error", "marginalize"}, default="auto"
        How NaN in X is treated: as an error, or as a missing value. Missing values are marginalized
        over 32 completions given the other values of the sample, by a joint distribution of the
        features, with intervals calibrated on masked out-of-fold samples. "auto" does so if values
        are missing in `fit`; otherwise a Gaussian copula completes missing values in predictions,
        whose intervals are not calibrated.
    dtype : {"float64", "float32"}, default="float32"
        Precision of the weights.
    n_jobs : int, default=None
        Number of threads. The result does not depend on it. None is 1 outside of a
        ``joblib.parallel_config``, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Shuffles the samples into folds, and draws the seeds of the networks.
    verbose : int, default=0
        1 shows a progress bar on the standard error.

    Attributes
    ----------
    estimators_ : list of PBPRegressor
        The network of every fold of each of `groups_`, not calibrated. They take samples as encoded
        for their group, and predict targets as given by ``calibration_.transformation``.
    weights_ : ndarray of shape (n_estimators,)
        Weights of `estimators_` in the mixture, which sum to 1.
    groups_ : list of Group
        The stacked candidates, largest weight first: `candidate`, `encoding`, `n_epochs`, `weight`.
    trials_ : list of Trial
        Record of every candidate in the search.
    best_params_, best_score_ : dict and float
        Hyperparameters of the candidate with the largest weight, and its out-of-fold score.
    cv_results_ : dict
        Results of the search with the keys of scikit-learn's `HalvingGridSearchCV`, and
        "stacking_weight".
    encoder_ : TableEncoder or None
        Encoder of the table, whose outputs are the features below; None if X was an array.
    columns_ : DataFrame
        Kind, encoding, number of levels and of missing values of each column of a table.
    bounds_ : InputBounds
        Range of each feature. Values beyond it grow ever more slowly, in most features by at most a
        quarter of the range. Encoders are applied to bounded samples.
    calibration_, calibrations_ : Calibration, and tuple of Calibration
        The factor of the variances, the noise network if there is one, and what was learned about
        shape and support of the distribution: of the first target, and of each.
    joint_ : Joint or None
        Joint distribution of the features, which completes missing values, or None.
    oof_predictive_ : Mixture, TransformedMixture or Recalibrated
        Calibrated out-of-fold predictive distribution of the samples of `fit`, each with the noise
        of its weight.
    oof_rows_ : ndarray of int
        Rows of these predictions; with an int `cv`, or with fewer than 5,000 samples, all rows of
        a weight above 0, ascending.
    oof_members_ : ndarray of int of shape (n_groups, n_oof)
        Which of `estimators_` predicted each of `oof_rows_`: networks not trained on it.
    background_ : ndarray of shape (100, n_inputs)
        Training samples, or fewer, with which `explain` compares; model files do not have them.
    n_iter_ : int
        Maximum number of epochs of a member.
    n_samples_seen_ : int
        Number of samples passed to `fit` and `partial_fit`.
    mean_sample_weight_ : float
        Mean of the sample weights above 0 in `fit`, by which all weights are divided, or 1.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X had string column names.

    Notes
    -----
    With ``cv="auto"`` and 5,000 samples or more, four of five folds have networks, from 20,000
    samples on three. From 100,000 samples on there are two validation sets of 20,000 samples, each
    with a network per stacked candidate that is trained on all others. A network is then shown as
    many samples as the epochs of the `budget` show of 25,000: 14 epochs of 600,000 samples with
    "good". One network of each candidate, of evidence cap 10 in "auto", decides.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop import PBPRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PBPRegressorCV(budget="fast", random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    >>> len(model.estimators_) == 5 * len(model.groups_)
    True
    """

    _member = PBPRegressor
    _scorer = RegressionScorer

    estimators_: list[PBPRegressor]
    calibration_: Calibration
    oof_predictive_: Predictive
    likelihood_: Gaussian

    def __init__(
        self,
        cv: Any = "auto",
        *,
        candidates: Literal["auto"] | Sequence[Candidate | Mapping[str, Any]] = "auto",
        budget: Literal["fast", "good", "best"] = "good",
        categorical_features: Literal["from_dtype"] | ArrayLike = "from_dtype",
        support: Literal["auto"] | tuple[float | None, float | None] | None = "auto",
        missing: Literal["auto", "error", "marginalize"] = "auto",
        dtype: Literal["float64", "float32"] = "float32",
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            cv,
            candidates=candidates,
            budget=budget,
            categorical_features=categorical_features,
            missing=missing,
            dtype=dtype,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.support = support

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        y_std: ArrayLike | None = None,
    ) -> Self:
        """Update the model with new samples. The first call is equivalent to `fit`.

        Samples are assigned to the folds in turn. The network of a fold predicts its samples, which
        updates the calibration, before the other networks are trained on them for one epoch, in
        the order given. Encoding, selection, recalibration, `oof_predictive_` and `oof_rows_` are
        not changed.
        Ctrl-C, or an error, leaves the estimator as it was before the call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Must be above 0 if the members predict a Box-Cox transformation of the target.
        sample_weight : array-like of shape (n_samples,), default=None
            In the units of `fit`, and divided by its mean weight; None is that mean weight.
        y_std : array-like of shape (n_samples,), default=None
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
        plain = [c.transformation is None and c.recalibration is None for c in self.calibrations_]
        if return_std or not all(plain):
            predictive = self.predict_distribution(X)
            return (predictive.mean, predictive.std) if return_std else predictive.mean
        y_mean, y_scale, _ = self._target_units
        return average(self._outputs(X).mean * y_scale + y_mean, self.weights_)

    def predict_distribution(
        self, X: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Predictive:
        """Return the calibrated predictive distribution, a mixture of the members, of every sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights above 0, in the units of `fit`: a sample of weight w has the noise variance of
            weight 1 divided by w. None is the mean weight in `fit`.

        Returns
        -------
        Mixture, TransformedMixture or Recalibrated
            In target units; the second if ``calibration_.transformation`` is not None, the third if
            ``calibration_.recalibration`` is not None.
        """
        outputs = self._outputs(X)
        factor = validation.noise_factor(self, sample_weight, outputs.rows)
        members = _in_target_units(outputs, *self._target_units)
        parts = zip(self.calibrations_, members, outputs.log_scales, strict=True)
        given = (factor, self.weights_)
        each = [known.mixture(own, outputs.rows, h, *given) for known, own, h in parts]
        return each[0] if len(each) == 1 else SeveralTargets(tuple(each))

    def predict_out_of_fold(self, X: ArrayLike, at: Array | slice = slice(None)) -> Predictive:
        """Predict out-of-fold samples, or changed ones, without the networks that learned them.

        The noise network is the one of the model, for samples of mean weight. A recalibration
        leaves out the fold of each sample.
        """
        outputs, own = self._oof_outputs(X, at)
        members = _in_target_units(outputs, *(each[own, 0] for each in self._target_units))
        weights, each = self._group_weights, list[Any]()
        parts = (self.calibrations_, self.oof_predictive_.targets(), members, outputs.log_scales)
        for known, oof, parts_of, h in zip(*parts, strict=True):
            found = known.out_of_fold.mixture(parts_of, outputs.rows, h, weights=weights)
            left_out = getattr(oof, "left_out", None)
            if isinstance(found, Recalibrated) and left_out is not None:
                found = replace(found, left_out=left_out.of(at))
            each.append(found)
        return each[0] if len(each) == 1 else SeveralTargets(tuple(each))

    @property
    def _target_units(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and scale of the targets of each member, and its standardized noise.

        The shape is (S, 1), or (S, 1, K) for K targets.
        """
        of = [(m.standardizer_, m.posterior_.noise_variance) for m in self.estimators_]
        mean, scale = (np.stack([getattr(s, k) for s, _ in of]) for k in ("y_mean", "y_scale"))
        noise = np.sqrt(np.stack([variance for _, variance in of]))
        if mean.shape[1] == 1:
            return mean, scale, noise
        return mean[:, np.newaxis], scale[:, np.newaxis], noise[:, np.newaxis]

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
        self._check_one_target("predict_gradient")
        given = np.asarray(check_inputs(self, X))
        members, d = _calibrated(self, self.bounds_.apply(given))

        def moments(m: Moments) -> FloatArray:
            p = self.calibration_.law(Mixture(*m, self.weights_))
            return np.stack([p.mean, p.epistemic_std, p.aleatoric_std])

        # Moments of the members have exact gradients; those of the mixture are differences.
        at, gradients = np.stack(members), list[FloatArray]()
        std = np.hypot(at[1], at[2]).min(axis=0)
        for j in range(d.shape[-1]):
            each = d[..., j]
            fastest = np.abs(each).max(axis=(0, 1))
            step = _STEP * std / np.where(fastest > 0.0, fastest, 1.0)
            # No standard deviation becomes negative, however small it is.
            shrinks = np.abs(np.divide(each[1:], at[1:], where=each[1:] != 0.0, out=0.0 * at[1:]))
            step = 0.5 / np.maximum(shrinks.max(axis=(0, 1)), 0.5 / step)
            above, below = (moments(Moments(*(at + s * step * each))) for s in (1, -1))
            gradients.append((above - below) / (2.0 * step))
        slopes = self.bounds_.slope(given) * np.stack(gradients, axis=-1)
        return Sensitivity(*moments(members), *slopes)

    def sample_functions(
        self, n: int = 1, random_state: int | RandomState | None = None
    ) -> list[SampledFunction]:
        """Sample functions from the calibrated posterior of a randomly chosen member.

        Each of the n functions is deterministic: ``f(X)`` has shape (n_samples,), in target units.
        `random_state` is an int, a RandomState instance or None.
        """
        check_is_fitted(self)
        self._check_one_target("sample_functions")
        check_int("n", n, 1)
        rng, box, drawn = check_random_state(random_state), self.calibration_.range, []
        for _ in range(n):
            at = rng.choice(len(self.estimators_), p=self.weights_)
            member, group = self.estimators_[at], self.groups_[at // self._n_folds]
            [network] = member.sample_functions(1, rng)
            slopes = box.slope * rng.standard_normal(len(box.low))
            parts = (network, member, self.bounds_, group.encoding, self.calibration_)
            drawn.append(SampledFunction(*parts, slopes, self.encoder_))
        return drawn

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        return self.likelihood_.n_outputs

    def _read(
        self, given: Given, *, stream: bool, classes: ArrayLike | None = None
    ) -> TrainingData:
        known = getattr(self, "likelihood_", None) if stream else None
        if given.y_std is not None:
            asked = self.support is not None and not isinstance(self.support, str)
            fitted = [] if known is None else [group.candidate for group in self.groups_]
            exact = any(c.power is not None or c.output_layer == "full" for c in fitted)
            if asked or exact or (fitted and self.calibration_.recalibration is not None):
                raise ValueError(
                    "y_std is not available with a support, a Box-Cox transformation, a "
                    "recalibration or an exact output layer: give None, or fit again with y_std "
                    'and support="auto".'
                )
        data = validation.read_values(self, given, known, Gaussian().noise_prior)
        if known is not None:
            if (g := self.calibration_.transformation) is None:
                return data
            if (bad := data.y[~(data.y > 0.0)]).size:
                raise ValueError(
                    "The model was fitted on a Box-Cox-transformed target; y must be strictly "
                    f"positive. Got {float(bad[0])}, and {bad.size} of {data.y.size} targets are "
                    "not positive. Drop them, or fit again, with all samples or with `candidates` "
                    "without a power."
                )
            return replace(data, y=g.forward(data.y))
        if len(data.y) < 2:
            raise ValueError(
                "PBPRegressorCV needs at least 2 samples for cross-validation. "
                f"Got n_samples = {len(data.y)}."
            )
        return data


def _in_target_units(
    outputs: Outputs, mean: FloatArray, scale: FloatArray, noise: FloatArray
) -> list[Moments]:
    """Return the moments of each target; the others are units of members, of a shape that fits."""
    found = (outputs.mean * scale + mean, np.sqrt(outputs.variance) * scale, noise * scale)
    if outputs.mean.ndim == 2:
        return [Moments(*found)]
    return [Moments(*(own[..., k] for own in found)) for k in range(outputs.mean.shape[2])]


# ---- Gradients of the mixture


_STEP = 1e-4  # of differences, in standard deviations of the target


def _sensitivity(member: PBPRegressor, A: Samples) -> Sensitivity:
    """Return the sensitivity of a member, by the features if A is encoded."""
    plan = plan_of(member, member.likelihood_)
    return sensitivity_at(plan, member.posterior_, member.standardizer_, Inputs(A))


def _calibrated(model: PBPRegressorCV, X: Array) -> tuple[Moments, FloatArray]:
    """Return calibrated moments of the S members at rows X, bounded, and their derivatives.

    Moments, (S, n), are before any transformation; derivatives are (3, S, n, n_features).
    """
    calibration, each = model.calibration_, list[Sensitivity]()
    for group, members in model.members_by_group:
        A = encoded(X, group.encoding, by_columns=True)
        each += [_sensitivity(member, A) for member in members]
    names = ("mean", "epistemic_std", "aleatoric_std", "dmean_dX", "depistemic_std_dX")
    mean, std, noise, dmean_dX, dstd_dX = (np.stack([getattr(s, k) for s in each]) for k in names)
    a, box = np.sqrt(calibration.factor), calibration.range
    epistemic_std = np.hypot(a * std, box.std(X))
    # With b = slope |d| the variance beyond the range, b db/dx_j = slope^2 d_j / scale_j.
    along = box.slope * box.outside(X) / box.scale
    scaled = (a * std / epistemic_std)[..., np.newaxis] * (a * dstd_dX)
    depistemic_std_dX = scaled + (box.slope / epistemic_std)[..., np.newaxis] * along
    aleatoric_std, dlog_dX = a * noise, np.zeros(X.shape)
    if calibration.noise is not None:
        factor, dlog_dX = _noise_factor(calibration.noise, box, X)
        aleatoric_std = aleatoric_std * np.sqrt(factor)
    daleatoric_std_dX = 0.5 * dlog_dX * aleatoric_std[..., np.newaxis]
    moments = Moments(mean, epistemic_std, aleatoric_std)
    return moments, np.stack([dmean_dX, depistemic_std_dX, daleatoric_std_dX])


def _noise_factor(network: NoiseNetwork, box: Range, X: Array) -> tuple[FloatArray, FloatArray]:
    """Return E[exp(h)] of every row, and the gradient of its logarithm.

    Beyond the range, and beyond the levels seen in training, h is constant.
    """
    nearest = box.nearest(X)
    plan = Plan(Scale(), dtype=network.posterior.dtype)
    A = Inputs(encoded(nearest, network.encoding, by_columns=True))
    h = sensitivity_at(plan, network.posterior, network.standardizer, A)
    v, levels = h.epistemic_std**2, network.levels
    inside = (levels.low < h.mean) & (h.mean < levels.high)
    dm_dX = np.where(inside, h.dmean_dX.T, 0.0).T
    half_dv_dX = np.where(v < levels.variance, h.epistemic_std * h.depistemic_std_dX.T, 0.0).T
    factor = LogScale(h.mean, v).bounded(*levels).factor
    return factor, np.where(nearest == X, dm_dX + half_dv_dX, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class SampledFunction:
    """A function drawn from a calibrated mixture of networks, without noise.

    With f a network drawn from the posterior of a member, m the mean of that member, a^2 the
    factor of the calibration and d(x) how far x lies outside of the range of the training samples,
    the function is m + a (f - m) + slopes . d: over many draws it has the mean and the variance of
    the mixture. If the target was transformed, it is the median of the target, given the network.

    Parameters
    ----------
    network, member : SampledNetwork or SampledOutputLayer, PBPRegressor
        f, on encoded rows, and the member whose mean is m.
    bounds, encoding, calibration : InputBounds, PiecewiseLinear or None, Calibration
        Those of the model. Bounds are applied to x first.
    slopes : ndarray of shape (n_features,)
        Drawn too, for one standard deviation of each feature, in the units that members predict.
    encoder : TableEncoder or None
        Applied to tables first.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import Candidate, PBPRegressorCV
    >>> X = np.linspace(0.0, 9.0, 30)[:, None]
    >>> model = PBPRegressorCV(candidates=[Candidate(4, (5,))], budget="fast", random_state=0)
    >>> [f] = model.fit(X, X[:, 0]).sample_functions(1, random_state=0)
    >>> f, f([[0.5], [1.5]]).shape
    (SampledFunction(1 feature, 5-5-1), (2,))
    """

    network: SampledNetwork | SampledOutputLayer
    member: PBPRegressor
    bounds: InputBounds
    encoding: PiecewiseLinear | None
    calibration: Calibration
    slopes: FloatArray
    encoder: Any = None

    def __repr__(self) -> str:
        n, sizes = len(self.slopes), "-".join(map(str, self.member.posterior_.layer_sizes))
        return short_repr(self, f"{n} feature{'' if n == 1 else 's'}", sizes)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the function at X, (n, n_features), of shape (n,) in target units."""
        rows, g = self.bounds.apply(self._rows(X)), self.calibration.transformation
        A, a = encoded(rows, self.encoding, by_columns=True), np.sqrt(self.calibration.factor)
        scales = self.member.standardizer_
        mean, _ = member_moments([(self.member.posterior_, scales)], A)
        m = mean[0] * scales.y_scale + scales.y_mean
        f: FloatArray = m + a * (self.network(A) - m)
        f += self.calibration.range.outside(rows) @ self.slopes
        return f if g is None else g.inverse(f)

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the function at X, (n,), and its gradients by the features, (n, n_features)."""
        given = self._rows(X)
        rows = self.bounds.apply(given)
        A = encoded(rows, self.encoding, by_columns=True)
        a, box = np.sqrt(self.calibration.factor), self.calibration.range
        at, (f, df_dX) = _sensitivity(self.member, A), self.network.gradient(A)
        outside = box.outside(rows)
        value = at.mean + a * (f - at.mean) + outside @ self.slopes
        slope = at.dmean_dX + a * (df_dX - at.dmean_dX)
        beyond = np.where(outside != 0.0, self.slopes / box.scale, 0.0)
        gradient = (slope + beyond) * self.bounds.slope(given)
        g = self.calibration.transformation
        if g is None:
            return value, gradient
        return g.inverse(value), g.slope(value)[:, np.newaxis] * gradient

    def _rows(self, X: ArrayLike) -> Array:
        if self.encoder is not None:
            found = self.encoder.transform(X)  # sparse if there are many categories
            X = found.toarray() if issparse(found) else found
        rows: Array = check_array(X, dtype=[np.float64, np.float32])
        if rows.shape[1] != len(self.slopes):
            raise ValueError(
                f"X has {rows.shape[1]} features, but SampledFunction is expecting "
                f"{len(self.slopes)} features as input."
            )
        return rows

"""PBPRegressorCV: the best predictions without tuning, by cross-validation.

Derivatives by the features X follow by the chain rule, as the networks see encoded rows of bounded
values: a ramp rises with 1/(width * scale) between its ends, and is flat elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self, overload

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.distributions import power
from probprop.distributions.base import Moments, short_repr
from probprop.distributions.functions import SampledNetwork, Sensitivity
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.base import DistributionMixin
from probprop.estimators.cv.base import PBPEstimatorCV
from probprop.estimators.cv.calibration import Calibration, NoiseNetwork, Range, ValuesJudge
from probprop.estimators.cv.folds import encoded
from probprop.estimators.data import Given, TrainingData, noise_factor, read_values
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_inputs, check_int
from probprop.inference.history import warn_of_counts
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian, Scale
from probprop.inference.noise import LogScale
from probprop.inference.plan import Plan
from probprop.inference.prediction import sensitivity_at


class PBPRegressorCV(DistributionMixin, RegressorMixin, PBPEstimatorCV):  # type: ignore[misc]
    """Regression by PBP networks selected, calibrated and averaged by cross-validation.

    Candidates, which differ in the encoding of the features, in depth and in memory, train side by
    side on the folds. They are compared by the log-likelihood of out-of-fold samples, and those
    that fall behind are dropped. The networks of the winner's folds are the ensemble. One factor
    calibrates their variances on out-of-fold samples, and a small network learns heteroscedastic
    noise there, if that helps.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test), default=5
        An int, at least 2, is the number of folds of shuffled samples, or of the groups passed to
        `fit`; fewer if there are fewer of them. Else a splitter of scikit-learn, or what one
        yields.
    candidates : "auto" or sequence of Candidate or dict, default="auto"
        What is compared. "auto": columns alone or with 16 ramps each (32 from 5,000 samples on),
        one or two layers of 48, evidence cap 10, 30 or none; from 100 samples on, if all targets
        are above 0 and their errors grow with them, the best one also with a power of the targets,
        which is used if it gains two standard errors on out-of-fold samples.
    budget : {"fast", "good", "best"} or float, default="good"
        "fast": up to 80 epochs, one layer, evidence cap 10; "good": up to 320 epochs; "best": up to
        1,280 epochs, with 64 ramps and two layers of 96 too. A number above 0 is seconds of
        processor time: candidates that cost too much are left out, and if time is left, the best
        one is trained on further partitions, up to six in all. The result then depends on the
        machine.
    missing : {"error", "marginalize"}, default="error"
        How NaN in X is treated: as an error, or as a missing value. Then the prediction of a sample
        is the mean over 32 ways to complete it from its other values, by a joint distribution of
        the features, with error bars calibrated on masked out-of-fold samples.
    dtype : {"float64", "float32"}, default="float32"
        Precision of the weights.
    n_jobs : int, default=None
        Number of threads, without influence on the result; None is 1 outside of a
        ``joblib.parallel_config``, -1 all processors. With "dask" there, all workers train.
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
        Calibrated out-of-fold predictive distribution of the samples of `fit`, each with the noise
        of its weight.
    oof_rows_ : ndarray of int
        Rows of these predictions; with an int `cv` and fewer than 100,000 samples, all rows of a
        weight above 0, ascending.
    oof_members_ : ndarray of int of shape (n_partitions, n_oof)
        Which of `estimators_` predicted each of `oof_rows_`: the networks that held it out.
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
    From 100,000 samples on, a network is shown as many samples as the epochs of the `budget` show
    of 25,000: 14 epochs of 600,000 samples with "good". One network of each candidate, of evidence
    cap 10 in "auto", decides on 20,000 validation samples. With an int `cv` and without groups
    there are four networks: two for each of two validation sets of 20,000 samples, trained on all
    others.

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
    Candidate(n_bins=None, hidden=(48,), evidence_cap=10.0, power=0.5)
    """

    _member = PBPRegressor
    _judge = ValuesJudge

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
            In target units; the second if ``calibration_.transformation`` is not None.
        """
        outputs = self._outputs(X)
        y_mean, y_scale = self._target_units
        noise = np.sqrt(np.stack([m.posterior_.noise_variance for m in self.estimators_]))
        members = Moments(
            outputs.mean * y_scale + y_mean, np.sqrt(outputs.variance) * y_scale, noise * y_scale
        )
        factor = noise_factor(self, sample_weight, outputs.rows)
        return self.calibration_.mixture(members, outputs.rows, outputs.log_scale, factor)

    def predict_out_of_fold(
        self, X: ArrayLike, at: Array | slice = slice(None)
    ) -> Mixture | TransformedMixture:
        """Predict out-of-fold samples, or changed ones, without the networks that learned them.

        The noise network is the one of the model, for samples of mean weight.
        """
        outputs, own = self._oof_outputs(X, at)
        y_mean, y_scale = (each[own, 0] for each in self._target_units)
        noise = np.sqrt(np.stack([m.posterior_.noise_variance for m in self.estimators_]))[own, 0]
        stds = (np.sqrt(outputs.variance) * y_scale, noise * y_scale)
        # The mean of the k networks is one network, as in the calibration.
        epistemic, aleatoric = (np.sqrt((std**2).mean(axis=0, keepdims=True)) for std in stds)
        mean = (outputs.mean * y_scale + y_mean).mean(axis=0, keepdims=True)
        squares = replace(self.calibration_.squares, between=0.0, n_members=1)
        calibration = replace(self.calibration_, squares=squares)
        return calibration.mixture(
            Moments(mean, epistemic, aleatoric), outputs.rows, outputs.log_scale
        )

    @property
    def _target_units(self) -> tuple[FloatArray, FloatArray]:
        """Mean and scale of the targets of each member, (S, 1)."""
        of = [member.standardizer_ for member in self.estimators_]
        return np.stack([s.y_mean for s in of]), np.stack([s.y_scale for s in of])

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
        given, g = check_inputs(self, X), self.calibration_.transformation
        rows = self.bounds_.apply(given)
        z = _calibrated(self, self._encode(rows), rows)
        mixture = _mixed(z)
        if g is not None:
            mixture = _capped(_mixed(_in_target_units(z, g)), mixture, z, g)
        return Sensitivity(*mixture.values, *(self.bounds_.slope(given) * mixture.d))

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
            g, bad = self.calibration_.transformation, data.y[~(data.y > 0.0)]
            if g is not None and bad.size:
                raise ValueError(
                    "This PBPRegressorCV predicts a power of the targets, since all that it was "
                    f"fitted to are above 0. Got {float(bad[0])}, and {bad.size} such targets in "
                    f"{data.y.size}. Leave them out, or fit again, with all rows or with "
                    "`candidates` that have no power."
                )
            return data if g is None else replace(data, y=g.forward(data.y))
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


# ---- Gradients of the mixture


def pull_back(dA: FloatArray, X: Array, state: PiecewiseLinear | None) -> FloatArray:
    """Return derivatives by the features, (n, n_features), from derivatives by encoded columns.

    At a knot the derivative of the side above it is returned.
    """
    if state is None:
        return dA
    n_raw, x = len(state.center), X[:, state.column]
    dX = dA[:, :n_raw] / state.scale
    rises = (state.start <= x) & (x < state.end)
    slope = rises / ((state.end - state.start) * state.ramp_scale)
    np.add.at(dX.T, state.column, (slope * dA[:, n_raw:]).T)
    return dX


class _Members(NamedTuple):
    """Calibrated moments of S members, or of their mixture, which has no axis S."""

    values: Moments  # (S, n) each
    d: FloatArray  # derivatives of the three by the features, (3, S, n, n_features)


def _mixed(m: _Members) -> _Members:
    """Return the moments of the mixture, (n,), and their gradients, (n, n_features)."""
    (mean, epistemic, aleatoric), (dmean, depistemic, daleatoric) = m
    mixture, dmixture = power.mixed(m.values, _equal(m)), dmean.mean(axis=0)
    with np.errstate(invalid="ignore"):  # infinite moments have no gradient: NaN
        # The law of total variance.
        stds, dstds = (epistemic, mean - mixture.mean), (depistemic, dmean - dmixture)
        d_epistemic = _of_root_mean_square(stds, dstds, mixture.epistemic_std)
        d_aleatoric = _of_root_mean_square([aleatoric], [daleatoric], mixture.aleatoric_std)
    return _Members(mixture, np.stack([dmixture, d_epistemic, d_aleatoric]))


def _capped(exact: _Members, mixture_z: _Members, z: _Members, g: BoxCox) -> _Members:
    """Return the moments as `TransformedMixture` caps them, and the gradients of these.

    `exact` is the mixture in target units, `mixture_z` the mixture of the members z.
    """
    ends = power.ends_of(z.values, _equal(z), g)
    values = power.capped(exact.values, mixture_z.values, ends)
    std = np.hypot(exact.values.epistemic_std, exact.values.aleatoric_std)
    most, high = ends.high - ends.low, ends.high
    dlow_dX, dhigh_dX = _of_end(z, ends.low_at, -ends.c, g), _of_end(z, ends.high_at, ends.c, g)

    # A capped part is `most` times its share of the std, a / hypot(a, b).
    finite = np.isfinite(std)
    a, b = np.where(finite, exact.values[1:], mixture_z.values[1:])
    da, db = np.where(finite[:, np.newaxis], exact.d[1:], mixture_z.d[1:])
    total = np.hypot(a, b)
    total = np.where(total > 0.0, total, 1.0)
    share_a, share_b = (a / total)[:, np.newaxis], (b / total)[:, np.newaxis]
    dtotal = share_a * da + share_b * db
    dmost = dhigh_dX - dlow_dX
    of_parts = [
        share * dmost + (most / total)[:, np.newaxis] * (dpart - share * dtotal)
        for share, dpart in ((share_a, da), (share_b, db))
    ]
    dstds = np.where((std > most)[:, np.newaxis], of_parts, exact.d[1:])
    above = (exact.values.mean > high)[:, np.newaxis]
    return _Members(values, np.stack([np.where(above, dhigh_dX, exact.d[0]), *dstds]))


def _equal(m: _Members) -> FloatArray:
    """Weights of the members, (S,)."""
    n_members = len(m.values.mean)
    return np.full(n_members, 1.0 / n_members)


def _of_end(z: _Members, at: Array, c_of: FloatArray, g: BoxCox) -> FloatArray:
    """Return the gradient of g^-1(m + c s) of the member `at`, (1, n)."""
    c = c_of[at[0]]
    m, a, b = (np.take_along_axis(part, at, axis=0)[0] for part in z.values)
    dm, da, db = (np.take_along_axis(part, at[..., np.newaxis], axis=0)[0] for part in z.d)
    s = np.hypot(a, b)
    dz = dm + c[:, np.newaxis] * ((a / s)[:, np.newaxis] * da + (b / s)[:, np.newaxis] * db)
    slope = g.slope(m + c * s)
    # Beyond floats the end is constant.
    gradient: FloatArray = np.where(np.isfinite(slope), slope, 0.0)[:, np.newaxis] * dz
    return gradient


def _of_root_mean_square(
    parts: Sequence[FloatArray], dparts_dX: Sequence[FloatArray], root: FloatArray
) -> FloatArray:
    """Return the gradient of the root of the mean over members of the sum of squares of parts."""
    # A part over the root, because squares of targets may be no floats.
    d_each = [
        np.divide(part, root, out=np.zeros_like(part), where=root > 0.0)[..., np.newaxis] * dpart_dX
        for part, dpart_dX in zip(parts, dparts_dX, strict=True)
    ]
    gradient: FloatArray = np.sum(d_each, axis=0).mean(axis=0)
    return gradient


def _calibrated(model: PBPRegressorCV, A: Array, X: Array) -> _Members:
    """Return the calibrated members at rows X, encoded in A, before any transformation."""
    each, calibration = [m.predict_gradient(A) for m in model.estimators_], model.calibration_
    mean, std, noise = (
        np.stack([np.broadcast_to(getattr(s, k), len(X)) for s in each])
        for k in ("mean", "epistemic_std", "aleatoric_std")
    )
    dmean_dX, dstd_dX = (
        np.stack([pull_back(getattr(s, k), X, model.encoding_) for s in each])
        for k in ("dmean_dX", "depistemic_std_dX")
    )
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
    values = Moments(mean, epistemic_std, aleatoric_std)
    return _Members(values, np.stack([dmean_dX, depistemic_std_dX, daleatoric_std_dX]))


def _in_target_units(m: _Members, g: BoxCox) -> _Members:
    """Return the members as `TransformedMixture` has them, by the chain rule."""
    each = power.slopes(m.values, g)[..., np.newaxis] * m.d[:, np.newaxis]
    return _Members(power.moments(m.values, g), each.sum(axis=0))


def _noise_factor(network: NoiseNetwork, box: Range, X: Array) -> tuple[FloatArray, FloatArray]:
    """Return E[exp(h)] of every row, and the gradient of its logarithm.

    Beyond the range, and beyond the levels seen in training, h is constant.
    """
    nearest = box.nearest(X)
    plan = Plan(Scale(), dtype=network.posterior.dtype)
    A = encoded(nearest, network.encoding, plan.dtype)
    h = sensitivity_at(plan, network.posterior, network.standardizer, Inputs(A))
    v, levels = h.epistemic_std**2, network.levels
    inside = (levels.low < h.mean) & (h.mean < levels.high)
    dm_dA = np.where(inside, h.dmean_dX.T, 0.0).T
    half_dv_dA = np.where(v < levels.variance, h.epistemic_std * h.depistemic_std_dX.T, 0.0).T
    dlog_dX = pull_back(dm_dA + half_dv_dA, nearest, network.encoding)
    factor = LogScale(h.mean, v).bounded(*levels).factor
    return factor, np.where(nearest == X, dlog_dX, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class SampledFunction:
    """A function drawn from a calibrated mixture of networks, without noise.

    With f a network drawn from the posterior of a member, m the mean of that member, a^2 the
    factor of the calibration and d(x) how far x lies outside of the range of the training samples,
    the function is m + a (f - m) + slopes . d: over many draws it has the mean and the variance of
    the mixture. If the target was transformed, it is the median of the target, given the network.

    Parameters
    ----------
    network : SampledNetwork
        f, on encoded rows.
    member : PBPRegressor
        The member whose mean is m.
    bounds : InputBounds
        Applied to x before all else.
    encoding : PiecewiseLinear or None
    calibration : Calibration
    slopes : ndarray of shape (n_features,)
        Drawn too, for one standard deviation of each feature, in the units that members predict.

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

    network: SampledNetwork
    member: PBPRegressor
    bounds: InputBounds
    encoding: PiecewiseLinear | None
    calibration: Calibration
    slopes: FloatArray

    def __repr__(self) -> str:
        n, sizes = len(self.slopes), "-".join(map(str, self.member.posterior_.layer_sizes))
        return short_repr(self, f"{n} feature{'' if n == 1 else 's'}", sizes)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the function at X, (n, n_features), of shape (n,) in target units."""
        rows, g = self.bounds.apply(self._rows(X)), self.calibration.transformation
        A = encoded(rows, self.encoding, np.dtype(self.member.dtype))
        m, a = self.member.predict(A), np.sqrt(self.calibration.factor)
        f: FloatArray = m + a * (self.network(A) - m)
        f += self.calibration.range.outside(rows) @ self.slopes
        return f if g is None else g.inverse(f)

    def gradient(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the function at X, (n,), and its gradients by the features, (n, n_features)."""
        given = self._rows(X)
        rows = self.bounds.apply(given)
        A = encoded(rows, self.encoding, np.dtype(self.member.dtype))
        a, box = np.sqrt(self.calibration.factor), self.calibration.range
        at, (f, df_dA) = self.member.predict_gradient(A), self.network.gradient(A)
        outside = box.outside(rows)
        value = at.mean + a * (f - at.mean) + outside @ self.slopes
        dA = at.dmean_dX + a * (df_dA - at.dmean_dX)
        beyond = np.where(outside != 0.0, self.slopes / box.scale, 0.0)
        gradient = (pull_back(dA, rows, self.encoding) + beyond) * self.bounds.slope(given)
        g = self.calibration.transformation
        if g is None:
            return value, gradient
        return g.inverse(value), g.slope(value)[:, np.newaxis] * gradient

    def _rows(self, X: ArrayLike) -> Array:
        rows: Array = check_array(X, dtype=[np.float64, np.float32])
        if rows.shape[1] != len(self.slopes):
            raise ValueError(
                f"X has {rows.shape[1]} features, but SampledFunction is expecting "
                f"{len(self.slopes)} features as input."
            )
        return rows

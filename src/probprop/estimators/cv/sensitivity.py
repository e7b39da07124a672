"""Calibrated mixtures as functions of the features: their gradients, and functions drawn from them.

The networks see encoded rows, A(B(X)), of bounded values, B(X). Derivatives by X follow by the
chain rule: a ramp rises with 1/(width * scale) between its ends, and is flat elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from probprop._types import Array, FloatArray
from probprop.distributions.base import Moments, short_repr
from probprop.distributions.functions import SampledNetwork, Sensitivity
from probprop.distributions.power import BoxCox, capped, ends_of, mixed, moments, slopes
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv.calibration import Calibration, NoiseNetwork, Range
from probprop.estimators.cv.folds import encoded
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods.scale import Scale
from probprop.inference.noise import LogScale
from probprop.inference.plan import Plan
from probprop.inference.prediction import sensitivity_at


def pull_back(dA: FloatArray, X: Array, state: PiecewiseLinear | None) -> FloatArray:
    """Return derivatives by the features, (n, n_features), from derivatives by encoded columns.

    At a knot the derivative of the side above it is returned.
    """
    if state is None:
        return dA
    n_raw, x = len(state.mean), X[:, state.column]
    dX = dA[:, :n_raw] / state.scale
    rises = (state.start <= x) & (x < state.end)
    slope = rises / ((state.end - state.start) * state.ramp_scale)
    np.add.at(dX.T, state.column, (slope * dA[:, n_raw:]).T)
    return dX


class _Members(NamedTuple):
    """Calibrated moments of S members, or of their mixture, which has no axis S."""

    values: Moments  # (S, n) each
    d: FloatArray  # derivatives of the three by the features, (3, S, n, n_features)


def sensitivity_of_mixture(
    estimators: Sequence[PBPRegressor],
    bounds: InputBounds,
    encoding: PiecewiseLinear | None,
    calibration: Calibration,
    X: Array,
) -> Sensitivity:
    """Return mean and standard deviation of every row of X, checked, with their gradients."""
    z = _calibrated(estimators, encoding, calibration, bounds.apply(X))
    mixture, g = _mixed(z), calibration.transformation
    if g is not None:
        mixture = _capped(_mixed(_in_target_units(z, g)), mixture, z, g)
    slope = bounds.slope(X)
    return Sensitivity(*mixture.values, *(slope * mixture.d))


def _mixed(m: _Members) -> _Members:
    """Return the moments of the mixture, (n,), and their gradients, (n, n_features)."""
    (mean, epistemic, aleatoric), (dmean, depistemic, daleatoric) = m
    mixture, dmixture = mixed(m.values, _equal(m)), dmean.mean(axis=0)
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
    ends = ends_of(z.values, _equal(z), g)
    values = capped(exact.values, mixture_z.values, ends)
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


def _calibrated(
    estimators: Sequence[PBPRegressor],
    encoding: PiecewiseLinear | None,
    calibration: Calibration,
    X: Array,
) -> _Members:
    """Return what `Calibration.mixture` makes of the members, before any transformation."""
    A = encoded(X, encoding, np.dtype(estimators[0].dtype))
    each = [member.predict_gradient(A) for member in estimators]
    mean, std, noise = (
        np.stack([np.broadcast_to(getattr(s, k), len(X)) for s in each])
        for k in ("mean", "epistemic_std", "aleatoric_std")
    )
    dmean_dX, dstd_dX = (
        np.stack([pull_back(getattr(s, k), X, encoding) for s in each])
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
    each = slopes(m.values, g)[..., np.newaxis] * m.d[:, np.newaxis]  # (3, 3, S, n, n_features)
    return _Members(moments(m.values, g), each.sum(axis=0))


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


# ---- Functions drawn from the posterior


@dataclass(frozen=True, eq=False, repr=False)
class SampledFunction:
    """A function drawn from a calibrated mixture of networks, without noise.

    With f a network drawn from the posterior of a member, m the mean of that member, a^2 the
    factor of the calibration and d(x) how far x lies outside of the range of the training samples,
    the function is m + a (f - m) + slopes . d: over many draws it has the mean and the variance of
    the mixture. If the members predict a power of the target, it is the median of the target, given
    the network.

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

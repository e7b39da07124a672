"""A residual whose noise variance e^g is log-normal: the integral over g, and its derivatives.

    Z = integral of N(d | 0, s) N(g | mu, var) dg,   s = v + e^g.

With sigma = sqrt(var) and g = mu + sigma u the integrand is exp(L(g) - u^2/2), where
L = -log(s)/2 - D/2, D = d^2/s. With k = e^g/s and derivatives by g,

    L' = k (D - 1)/2,   L'' = (1 - k) L' - k^2 D/2.

Where v > 0 and d^2 > v, L'' is positive for e^g < bend = v (d^2 - v)/(d^2 + v) and negative
beyond. So there is one mode if bend is below e^mu, for left of it everything rises; else there
may be two: the model explains the residual, or the noise does. The trapezoidal rule converges
geometrically, with steps that follow the width of the integrand and the strip |Im g| < pi/2 in
which it is tame. Derivatives of log Z are averages under the integrand, in Stein's form: nothing
is divided by var, and var = 0 is the Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

D_MAX = 1e150
"""Residuals beyond this are refused, for their squares overflow."""
G_MAX = 700.0
"""As are mu and var for which e^g may do so: |mu| + 6 sigma + var/2 must not be above this."""

_STEP_G = 0.25  # steps in g are no longer than this, for the strip
_STEP_WIDTH = 0.5  # nor than this many widths of the integrand
_NEGLIGIBLE = math.exp(-36.0)  # what an end of the rule may be, relative to the top
_DROP = 60.0  # a mode lower than the other by exp(-60) is left out
_G_END = 706.0  # nodes keep abs(g) below this
_D_FAR = 1e250  # the search for the mode starts where D is no larger
_U_NARROW = 1e8  # a mode beyond this is a Gaussian, for u sigma is at most 1,400
_NEAR = 0.3  # how far from a mode its search ends, in widths
_MAX_STEPS = 200  # of a search; five are many
_BLOCK = 64  # nodes at a time
_MAX_BLOCKS = 1 << 14  # a dozen are many


class ScaleMixture(NamedTuple):
    """log Z of the module's docstring and its derivatives; m is the mean, d = y - m."""

    log_Z: float
    dlogZ_dmu: float
    dlogZ_dvar: float
    dlogZ_dm: float
    dlogZ_dv: float


REFUSED = ScaleMixture(*[math.nan] * 5)
"""What the integral is where the arguments are out of range."""


def scale_mixture(d: float, v: float, mu: float, var: float) -> ScaleMixture:
    """Integrate over the logarithm of the noise variance.

    d is the residual, v the variance of its mean, mu and var the moments of the logarithm of the
    noise variance. The result is NaN where an argument is not finite, abs(d) is above `D_MAX` or g
    beyond `G_MAX`; or, with sigma below 1e-4, where two modes far apart are as high as each other.

    >>> exact = scale_mixture(d=1.0, v=0.75, mu=-1.3862943611198906, var=0.0)
    >>> round(exact.log_Z, 6), round(exact.dlogZ_dm, 6)
    (-1.418939, 1.0)
    >>> heavy = scale_mixture(d=10.0, v=0.75, mu=-1.3862943611198906, var=2.0)
    >>> round(heavy.log_Z, 6), round(heavy.dlogZ_dm, 6)
    (-10.490182, 0.564623)
    """
    if not _in_range(d, v, mu, var):
        return REFUSED
    f = _Integrand(d * d, v, mu, math.sqrt(var))
    if var == 0.0:
        at, log_Z = f.at(0.0), -0.5 * math.log(2.0 * math.pi)
        averages = [float(x) for x in _averaged(at.s, at.k, at.D)]
        log_Z += -0.5 * (math.log(at.s) + at.D)
    else:
        top, leftmost, u_step = _plan(f)
        at = f.at(top)
        sums = np.array([1.0, *_averaged(at.s, at.k, at.D)])  # of the node at the top
        if top > _U_NARROW:  # a Gaussian, and narrower than g varies
            u_step = math.sqrt(-2.0 * math.pi / at.curvature)
        else:
            sums += _march(f, at, u_step, leftmost, +1) + _march(f, at, u_step, leftmost, -1)
        averages = [float(x / sums[0]) for x in sums[1:]]
        log_Z = -0.5 * (at.D + top * top) - math.log(2.0 * math.pi)
        log_Z += math.log(u_step * float(sums[0]) / math.sqrt(at.s))
    dlogZ_dmu, dlogZ_dvar, mean_precision, dlogZ_dv = averages
    return ScaleMixture(log_Z, dlogZ_dmu, dlogZ_dvar, d * mean_precision, dlogZ_dv)


def _in_range(d: float, v: float, mu: float, var: float) -> bool:
    if not (abs(d) <= D_MAX and 0.0 <= v <= D_MAX**2 and 0.0 <= var < math.inf):
        return False
    return abs(mu) + 6.0 * math.sqrt(var) + 0.5 * var <= G_MAX


class _Point(NamedTuple):
    """The integrand at u; slope and curvature are derivatives of its logarithm by u."""

    u: float
    e_g: float
    s: float
    k: float
    D: float
    slope: float
    curvature: float

    @property
    def height(self) -> float:
        """The logarithm of the integrand."""
        return -0.5 * (math.log(self.s) + self.D + self.u * self.u)


@dataclass(frozen=True)
class _Integrand:
    d2: float
    v: float
    mu: float
    sigma: float

    def at(self, u: float) -> _Point:
        e_g = math.exp(self.mu + self.sigma * u)
        s = self.v + e_g
        k, D = e_g / s, self.d2 / s
        L1 = 0.5 * k * (D - 1.0)
        L2 = (1.0 - k) * L1 - 0.5 * k * k * D
        return _Point(u, e_g, s, k, D, self.sigma * L1 - u, self.sigma * self.sigma * L2 - 1.0)

    def u_where(self, e_g: float) -> float:
        """Return u for a value of e^g."""
        return (math.log(e_g) - self.mu) / self.sigma


def _averaged(s: np.ndarray | float, k: np.ndarray | float, D: np.ndarray | float) -> np.ndarray:
    """Return what the derivatives average: by mu, var, m (but for the factor d) and v."""
    L1 = 0.5 * k * (D - 1.0)
    L2 = (1.0 - k) * L1 - 0.5 * k * k * D
    return np.array([L1, 0.5 * (L2 + L1 * L1), 1.0 / s, 0.5 * (D - 1.0) / s])


def _plan(f: _Integrand) -> tuple[float, float, float]:
    """Find a mode to begin at, how far left the rule must go at least, and the step, all in u."""
    bend = f.v * ((f.d2 - f.v) / (f.d2 + f.v)) if f.d2 > f.v else 0.0
    e_mu = math.exp(f.mu)
    start = 0.0
    if f.d2 > _D_FAR * (f.v + e_mu):
        start = f.u_where(f.d2) - math.log(_D_FAR) / f.sigma
    if not bend > e_mu:
        top = _concave_mode(f, start)
        return top, top, _step(f, top)
    u_bend = f.u_where(bend)
    left = _mode_along(f, -0.5 * f.sigma)  # the slope is positive: L' is above -1/2
    if left is not None and left >= u_bend:
        left = None
    falls = not f.at(u_bend).slope > 0.0
    right = _mode_along(f, u_bend) if falls else _concave_mode(f, max(start, u_bend))
    # Right of a mode, where the integrand falls, k D is at most 1 + 2 u/sigma.
    widest = u_bend if right is None or falls else right
    if left is None or right is None:
        top = right if right is not None else u_bend if left is None else left
        return top, top, _step(f, widest)
    lead = f.at(right).height - f.at(left).height
    if lead < -_DROP:
        return left, left, _step(f, u_bend)
    return right, (right if lead > _DROP else left), _step(f, widest)


def _step(f: _Integrand, u: float) -> float:
    """Return the step in u, for curvatures as at a mode at u: k^2 D is at most 1 + 2 u/sigma."""
    curvature = 1.0 + f.sigma * (0.5 * f.sigma + max(u, 0.0))
    return min(_STEP_WIDTH / math.sqrt(curvature), _STEP_G / f.sigma)


def _concave_mode(f: _Integrand, start: float) -> float:
    """Find the mode where the logarithm is concave; `start` is 0, or left of the mode."""
    u, low = start, (start if start > 0.0 else -0.5 * f.sigma)
    high = (_G_END - f.mu) / f.sigma  # D is below 1
    for _ in range(_MAX_STEPS):
        at = f.at(u)
        if at.slope * at.slope < _NEAR * _NEAR * -at.curvature or abs(at.slope) < 1e-14 * u:
            break
        low, high = (u, high) if at.slope > 0.0 else (low, u)
        pull = at.slope + u  # sigma L'
        if u > 0.0 and pull > 2.0 * u:
            # Far left of it: log(pull/u) is nearly a line, as the slope is not.
            u += math.log(pull / u) / (1.0 / u - (at.curvature + 1.0) / pull)
        else:
            u -= at.slope / at.curvature
        if not low < u < high:
            u = 0.5 * (low + high)
    return u


def _mode_along(f: _Integrand, start: float) -> float | None:
    """Find the first mode right of a point where the slope is positive, or left of a negative one.

    L'' rises from 0 to its only maximum and falls to 0 at the bend. So the slope is convex left
    of that maximum and concave right of it: Newton's iteration from either end climbs and never
    passes a mode. Where the slope rises it has passed them all: there is none.
    """
    u = start
    for _ in range(_MAX_STEPS):
        at = f.at(u)
        if at.curvature >= 0.0:
            return None
        if at.slope * at.slope < _NEAR * _NEAR * -at.curvature or abs(at.slope) < 1e-14 * u:
            break
        u = min(u - at.slope / at.curvature, (_G_END - f.mu) / f.sigma)
    return u


def _march(f: _Integrand, top: _Point, u_step: float, leftmost: float, sign: int) -> np.ndarray:
    """Sum over the nodes on one side of the top: of the integrand, relative to the top, and of it
    times what the derivatives average; (5,).
    """
    sums = np.zeros(5)
    for block in range(_MAX_BLOCKS):
        delta = sign * u_step * np.arange(block * _BLOCK + 1, (block + 1) * _BLOCK + 1)
        g_top = f.mu + f.sigma * top.u
        ahead = np.clip(f.sigma * delta, -_G_END - g_top, _G_END - g_top)
        # Differences to the top, so that what is large on both sides does not round it away.
        with np.errstate(under="ignore"):
            e_g = top.e_g * np.exp(ahead)
            s = f.v + e_g
            k, D = e_g / s, f.d2 / s
            rise = 0.5 * top.D * (top.e_g * np.expm1(ahead) / s)
            relative = np.sqrt(top.s / s) * np.exp(rise - 0.5 * delta * (delta + 2.0 * top.u))
            sums += [relative.sum(), *(relative * _averaged(s, k, D)).sum(axis=1)]
        last = relative[-1] * max(1.0, top.s / s[-1])  # what 1/s averages reaches farther left
        if last < _NEGLIGIBLE and (sign > 0 or top.u + delta[-1] < leftmost):
            return sums
    return np.full(5, math.nan)  # two narrow modes too far apart: refused

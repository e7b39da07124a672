"""A Gaussian plus Student-t noise: the density and its tail by quadrature.

[PBP15] Eq. (12) replaces the Student-t noise, which results from the noise precision
gamma ~ Gam(alpha, beta), by a Gaussian of the same variance (the error is the subject of
section 3 of the supplement). Here is the integral before that step,

    p(r) = int N(r | 0, v + 1/gamma) Gam(gamma | alpha, beta) dgamma.

Everything is scale free. With s = log(gamma beta / alpha), so that the Gamma has its mode at
s = 0, and kappa = v alpha / beta, the integrand in s is exp(M(s)) times a factor that varies
slowly (sqrt(w / 2 pi) for the density, erfcx(sqrt(r^2 w / 2)) / 2 for the tail), where

    M(s) = -alpha (e^s - 1 - s) - r^2 w / 2,    w = 1 / (v + 1/gamma).

Three facts make the trapezoid rule in s accurate at every alpha, v and r:

1. M'(s) = 0 is a cubic in e^s with all its roots in s < 0. In the variable l = logit(e^s) it
   is F(l) = l + log(eta) - 2 log(1 + kappa e^s) = 0 with eta = r^2 / (2 beta). F has one root if
   kappa <= 8; otherwise F turns twice, at points known in closed form, and there may be three:
   the mode of an outlier far to the left, an antimode, and the mode near the prior's.
2. On the line Im s = theta, |exp M(s + i theta)| <= cos(theta)^-alpha exp M(s + log cos theta)
   for |theta| < pi/2, so the rule with step h has a relative error of about
   2 cos(theta)^-alpha exp(-2 pi theta / h), whatever v and r. The step depends on alpha only.
3. What lies more than `DEPTH` below the maximum of M does not count. What remains is one
   window, or two that are apart, of some 25 (alpha large) to 350 nodes (alpha near 1), and
   a few thousand where the two modes are about to merge and alpha is 1e8 to 1e10, and more
   beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_expit, logit

from probprop._types import FloatArray

IntArray = NDArray[np.intp]

DEPTH = 45.0  # exp(-45) = 3e-20: the integrand below this fraction of its maximum is left out
LOG_ERROR = 40.0  # exp(-40) = 4e-18: the error of the trapezoid rule
LARGEST_ALPHA = 1e12  # the nodes where two modes merge grow with its root, and without a bound
CHUNK = 1 << 18  # nodes held at a time: 2 MB per temporary array


class _Rows(NamedTuple):
    """The parameters of M for each row, shape (n,) each, and alpha."""

    log_kappa: FloatArray
    log_half: FloatArray  # log of r^2 gamma / 2 at s = 0
    alpha: float

    def take(self, rows: IntArray) -> _Rows:
        return _Rows(self.log_kappa[rows], self.log_half[rows], self.alpha)


# The logarithm of a slowly varying factor at the nodes s, for rows that broadcast against s.
_Factor = Callable[[FloatArray, _Rows], FloatArray]


def logpdf(z: ArrayLike, log_ratio: ArrayLike, alpha: float) -> FloatArray:
    """Log density of a Gaussian plus Student-t noise, in units of its standard deviation.

    Parameters
    ----------
    z : array_like
        Residuals in units of the standard deviation of the sum.
    log_ratio : array_like, broadcasts against z
        log(std_model / std_noise); -inf for Student-t noise alone.
    alpha : float
        Shape of the Gamma of the noise precision, above 1; the noise has 2 alpha degrees
        of freedom.

    Returns
    -------
    ndarray
        The log density of z, in the broadcast shape.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(logpdf(0.5, -np.inf, 1e9), -0.5 * (0.25 + np.log(2 * np.pi))))
    True
    >>> float(logpdf(1000.0, 0.0, 6.0).round(3))  # the Gaussian has -500000.919
    -79.841
    """
    z, log_ratio = _broadcast(z, log_ratio)
    # log(w beta / alpha) to log w: var_noise (alpha - 1) / alpha in units of the whole variance.
    offset = np.logaddexp(0.0, 2.0 * log_ratio) + _log_excess(alpha) - np.log(2.0 * np.pi)
    log_p: FloatArray = _log_mean(_log_sqrt_w, z, log_ratio, alpha) + 0.5 * offset
    return log_p


def log_sf(z: ArrayLike, log_ratio: ArrayLike, alpha: float) -> FloatArray:
    """Log of the probability above z, both tails relatively accurate; see `logpdf`.

    Examples
    --------
    >>> float(np.exp(log_sf(0.0, 1.0, 3.0)).round(12))
    0.5
    """
    z, log_ratio = _broadcast(z, log_ratio)
    log_tail = _log_mean(_log_half_erfcx, z, log_ratio, alpha)
    return np.where(z < 0.0, np.log1p(-np.exp(log_tail)), log_tail)


def _broadcast(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    return x, y


def _log_excess(alpha: float) -> float:
    """log(alpha / (alpha - 1)): E[1/gamma] = beta / (alpha - 1) against beta / alpha."""
    return float(np.log(alpha / (alpha - 1.0)))


def _log_sqrt_w(s: FloatArray, rows: _Rows) -> FloatArray:
    """Half of log(w beta / alpha), the factor of the density."""
    log_w: FloatArray = -np.logaddexp(-s, rows.log_kappa)
    return 0.5 * log_w


def _log_half_erfcx(s: FloatArray, rows: _Rows) -> FloatArray:
    """Log of Phi(-x) exp(x^2 / 2) at x = |r| sqrt(w), the factor of the tail."""
    factor: FloatArray = np.log(0.5 * erfcx(np.sqrt(_half_square(s, rows))))
    return factor


def _log_mean(factor: _Factor, z: FloatArray, log_ratio: FloatArray, alpha: float) -> FloatArray:
    """Log of E[exp(-r^2 w / 2 + factor)] over the Gamma, for |z| of any size."""
    log_mean = np.where(np.isnan(z), np.nan, -np.inf)
    finite = np.isfinite(z)
    if finite.any():
        log_kappa = 2.0 * log_ratio[finite] + _log_excess(alpha)
        with np.errstate(divide="ignore"):
            log_half = 2.0 * np.log(np.abs(z[finite])) - np.log(2.0) + _log_excess(alpha)
        log_half += np.logaddexp(0.0, 2.0 * log_ratio[finite])
        # exp(-700) is zero beside everything it is added to, and keeps log(eta) finite.
        rows = _Rows(log_kappa, np.maximum(log_half, -700.0), alpha)
        log_mean[finite] = _log_integral(factor, rows) - _log_normaliser(alpha)
    return log_mean


@lru_cache(maxsize=64)
def _log_normaliser(alpha: float) -> float:
    """Log of int exp(-alpha (e^s - 1 - s)) ds = Gamma(alpha) (e / alpha)^alpha.

    By the same rule: the closed form cancels at large alpha (2e-6 is left at 1e9).
    """
    prior = _Rows(np.array([-np.inf]), np.array([-700.0]), alpha)
    return float(_log_integral(lambda s, rows: np.zeros_like(s), prior)[0])


def _half_square(s: FloatArray, rows: _Rows) -> FloatArray:
    """r^2 w / 2, without overflow of its parts."""
    with np.errstate(over="ignore", divide="ignore"):
        inverse = np.exp(-s - rows.log_half) + np.exp(rows.log_kappa - rows.log_half)
        half: FloatArray = 1.0 / inverse
    return half


def _exponent(s: FloatArray, rows: _Rows) -> FloatArray:
    """M(s), the logarithm of the integrand but for the slow factor and constants."""
    # expm1(s) - s loses alpha |s| eps, which is seen near s = 0 when alpha is large.
    series = 0.5 * s * s * (1.0 + s / 3.0 * (1.0 + s / 4.0 * (1.0 + s / 5.0 * (1.0 + s / 6.0))))
    excess = np.where(np.abs(s) < 3e-3, series, np.expm1(s) - s)  # e^s - 1 - s
    return -rows.alpha * excess - _half_square(s, rows)


def _bisect(
    f: Callable[[FloatArray], FloatArray], below: FloatArray, above: FloatArray, n_steps: int
) -> FloatArray:
    """The end `below` of brackets f(below) < 0 <= f(above), in either order, shrunk by 2^-n."""
    for _ in range(n_steps):
        middle = 0.5 * (below + above)
        negative = f(middle) < 0.0
        below, above = np.where(negative, middle, below), np.where(negative, above, middle)
    return below


def _balance(logit_g: FloatArray, rows: _Rows) -> FloatArray:
    """F of the module's docstring, zero where M'(s) is, at s = log(expit(logit_g))."""
    log_eta = rows.log_half - np.log(rows.alpha)
    log_kappa_g = rows.log_kappa + log_expit(logit_g)
    balance: FloatArray = logit_g + log_eta - 2.0 * np.logaddexp(0.0, log_kappa_g)
    return balance


def _critical_points(rows: _Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mode, antimode and second mode of M from left to right; NaN where there is only one."""

    def root(below: FloatArray, above: FloatArray, sub: _Rows) -> FloatArray:
        s: FloatArray = log_expit(_bisect(lambda x: _balance(x, sub), below, above, 50))
        return s

    first = np.log(rows.alpha) - rows.log_half  # -log(eta), where kappa has no effect
    last = first + 2.0 * np.logaddexp(0.0, rows.log_kappa)  # where kappa e^s is at most kappa

    # With g = e^s, F turns where 2 kappa g^2 - kappa g + 1 = 0: g = (1 -+ sqrt(1 - 8/kappa)) / 4.
    three: IntArray = np.flatnonzero(rows.log_kappa > np.log(8.0))
    sub = rows.take(three)
    spread = np.sqrt(-np.expm1(np.log(8.0) - sub.log_kappa))
    log_g_1 = np.log(2.0) - sub.log_kappa - np.log1p(spread)
    turn_1 = log_g_1 - np.log1p(-np.exp(log_g_1))
    turn_2: FloatArray = logit(0.25 * (1.0 + spread))
    really = (_balance(turn_1, sub) > 0.0) & (_balance(turn_2, sub) < 0.0)
    three, turn_1, turn_2 = three[really], turn_1[really], turn_2[really]
    sub = rows.take(three)

    antimode, second = np.full((2, len(first)), np.nan)
    antimode[three] = root(turn_2, turn_1, sub)
    second[three] = root(turn_2, last[three], sub)
    last[three] = turn_1
    return root(first, last, rows), antimode, second


def _windows(rows: _Rows) -> tuple[IntArray, FloatArray, FloatArray]:
    """Row, left end and right end of every stretch of s where M is within DEPTH of its maximum."""
    mode, antimode, second = _critical_points(rows)
    height, height_second = _exponent(mode, rows), _exponent(second, rows)
    level: FloatArray = np.fmax(height, height_second) - DEPTH
    # M(s) <= -alpha (e^s - 1 - s) is below the level outside these.
    far_left = level / rows.alpha - 1.0
    x = -level / rows.alpha
    far_right = np.minimum(np.sqrt(2.0 * x), np.log(4.0 * x + 4.0))

    two = ~np.isnan(second)
    apart = two & (_exponent(antimode, rows) < level)
    a = np.flatnonzero(~apart | (height > level))
    b = np.flatnonzero(apart & (height_second > level))
    row = np.concatenate([a, b])
    from_left = np.concatenate([mode[a], second[b]])
    from_right = np.concatenate([np.where(two & ~apart, second, mode)[a], second[b]])
    bound_left = np.concatenate([far_left[a], antimode[b]])
    bound_right = np.concatenate([np.where(apart, antimode, far_right)[a], far_right[b]])

    sub, level = rows.take(row), level[row]

    def above_level(s: FloatArray) -> FloatArray:
        return _exponent(s, sub) - level

    left = _bisect(above_level, bound_left, from_left, 30)
    right = _bisect(above_level, bound_right, from_right, 30)
    return row, left, right


def _step(alpha: float) -> float:
    """The step h with cos(theta)^-(alpha + 1) exp(-2 pi theta / h) = exp(-LOG_ERROR)."""
    # The best theta; alpha + 1 rather than alpha leaves room for the slow factors.
    theta = np.linspace(0.01, 1.0, 100) * min(1.5, np.sqrt(2.0 * LOG_ERROR / alpha))
    return float(np.max(2.0 * np.pi * theta / (LOG_ERROR - (alpha + 1.0) * np.log(np.cos(theta)))))


def _log_integral(factor: _Factor, rows: _Rows) -> FloatArray:
    """Log of the integral of exp(M + factor) over s, for each row; shape (n,)."""
    row, left, right = _windows(rows)
    n_nodes = np.ceil((right - left) / _step(rows.alpha)).astype(np.intp) + 1
    log_sum = np.full(len(rows.log_half), -np.inf)
    order = np.argsort(n_nodes)
    while len(order):
        n = int(n_nodes[order[-1]])  # the widest of the chunk; the others get a finer step
        order, chunk = np.split(order, [max(0, len(order) - max(1, CHUNK // n))])
        h = (right[chunk] - left[chunk]) / (n - 1)
        s = left[chunk] + h * np.arange(n)[:, np.newaxis]  # (n, rows)
        sub = rows.take(row[chunk])
        log_f = _exponent(s, sub) + factor(s, sub)
        top = log_f.max(axis=0)
        value = top + np.log(h * np.exp(log_f - top).sum(axis=0))
        np.logaddexp.at(log_sum, row[chunk], value)
    return log_sum

"""The Gamma update for the noise and the prior precision.

[PBP15] Eqs. (9) and (10). The factor is N(y | m, v + 1/gamma) with gamma ~ Gam(alpha, beta);
d2 = (y - m)^2. The closed form approximates the normalizer Z as [PBP15] Eqs. (11) and (12) do; the
quadrature integrates exactly, for the cases in which the closed form is not a Gamma.
"""

from __future__ import annotations

import math

import numpy as np

from probprop._types import FloatArray

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)
_N_BISECTIONS = 64  # halves 30 nats down to the rounding of log gamma
_MAX_PANEL = 1.0  # in log gamma, on whose unit scale the integrand's factors vary
_DROP = 40.0  # exp(-40) of a mode's height is the end of its tail


def gamma_increments(alpha: float, beta: float, d2: float, v: float) -> tuple[float, float]:
    """Evaluate [PBP15] Eqs. (9) and (10) as increments of alpha (> 1) and beta (> 0).

    d2 is the squared residual, v the variance without 1/gamma. The increments are NaN where the
    closed form overflows. However large alpha is, their errors are roundings of 1 and beta/alpha,
    the contribution of one observation.
    """
    with np.errstate(all="ignore"):
        a, b = np.float64(alpha), np.float64(beta)
        # log_Z, log_Z1, log_Z2 are Gaussian with these variances: alpha, alpha + 1, alpha + 2.
        s0, s1, s2 = v + b / (a - 1.0), v + b / a, v + b / (a + 1.0)
        k0, k1 = b / ((a - 1.0) * s0), b / (a * s1)
        a2_minus_1 = (a - 1.0) * (a + 1.0)

        # Differs from [PBP15] Eqs. (9), (10): the same functions, but the differences of
        # log Z, of the order 1/alpha and 1/alpha^2, are formed without cancellation.
        # first = log_Z1 - log_Z; second = log_Z2 - 2 log_Z1 + log_Z. The kernel has fewer
        # divisions, and series of log1p and expm1 for small arguments.
        first = -0.5 * np.log1p(-k0 / a) - 0.5 * d2 * k0 / (a * s1)
        second = d2 * v * k1 / (a2_minus_1 * s0 * s2)
        second -= 0.5 * np.log1p(k1 * (2.0 - k1) / a2_minus_1)
    return increments_of(alpha, beta, float(first), float(second))


def increments_of(alpha: float, beta: float, first: float, second: float) -> tuple[float, float]:
    """Evaluate [PBP15] Eqs. (9) and (10) from differences of log Z, as increments.

    `first` is log_Z1 - log_Z, and `second` is log_Z2 - 2 log_Z1 + log_Z.
    """
    with np.errstate(all="ignore"):
        a, b = np.float64(alpha), np.float64(beta)
        e = (a + 1.0) * np.expm1(second)  # alpha_new = alpha/(1 + e)
        delta_alpha = -a * e / (1.0 + e)
        delta_beta = b * (np.expm1(-first) - e) / (1.0 + e)
    return float(delta_alpha), float(delta_beta)


def is_valid_gamma(alpha_new: float, beta_new: float) -> bool:
    """Whether these are the parameters of a Gamma with a finite E[1/gamma]."""
    return 1.0 < alpha_new < math.inf and 0.0 < beta_new < math.inf


def is_sound_update(
    alpha: float, beta: float, d2: float, alpha_new: float, beta_new: float
) -> bool:
    """Whether the closed form gave a Gamma with a plausible mean.

    The residual can at most be all noise, so exactly E[gamma] >= alpha/(beta + d2/2). For an
    outlier with v below the noise the closed form stays valid while its mean falls like
    exp(-d2/(2 beta)); a mean below a tenth of the bound is the sign of it.
    """
    return is_valid_gamma(alpha_new, beta_new) and (
        alpha_new * (beta + 0.5 * d2) >= 0.1 * alpha * beta_new
    )


def gamma_update(alpha: float, beta: float, d2: float, v: float) -> tuple[float, float, bool]:
    """Apply the closed form where it is sound, else the quadrature; whether it was comes last."""
    delta_alpha, delta_beta = gamma_increments(alpha, beta, d2, v)
    alpha_new, beta_new = alpha + delta_alpha, beta + delta_beta
    if is_sound_update(alpha, beta, d2, alpha_new, beta_new):
        return alpha_new, beta_new, False
    # Differs from [PBP15] Eqs. (9), (10): for an outlier they give no Gamma, or an inaccurate one.
    return *gamma_moments_by_quadrature(alpha, beta, d2, v), True


def gamma_moments_by_quadrature(
    alpha: float, beta: float, d2: float, v: float
) -> tuple[float, float]:
    """Fit a Gamma to the moments of N(y | m, v + 1/gamma) Gam(gamma | alpha, beta).

    In u = log gamma the log integrand g(u) has one or two maxima. Each is bracketed and
    bisected; panels, dyadic around each and at most 1 wide, cover them and their tails;
    each panel is integrated by 20-point Gauss-Legendre. Everything is relative to the
    higher maximum, so that large alpha cost no digits.

    alpha_new and beta_new match E[gamma] and Var[gamma], as [PBP15] Eqs. (9) and (10) do. Two modes
    of similar mass can make that a Gamma without E[1/gamma], the noise variance, or with more than
    twice the true one: then E[gamma] and E[1/gamma] are matched, always a valid Gamma.
    """
    # In units of the mean alpha/beta: gamma = x alpha/beta, x ~ Gam(alpha, alpha).
    integrand = _LogIntegrand(alpha, d2 * (alpha / beta), v * (alpha / beta))
    modes = integrand.modes()
    u0 = modes[0]
    if len(modes) == 2 and integrand.relative_to(u0, np.asarray(modes[1] - u0)) > 0.0:
        u0 = modes[1]
    left, right = min(modes) - u0, max(modes) - u0

    h, weight = _panel_nodes(integrand.break_points(u0, left, right))
    weight = weight * np.exp(integrand.relative_to(u0, h))
    weight /= weight.sum()

    e = np.expm1(h)  # x = exp(u0) (1 + e)
    e_mean = float(weight @ e)
    e_var = float(weight @ (e - e_mean) ** 2)
    mean = math.exp(u0) * (1.0 + e_mean) * (alpha / beta)
    alpha_new = (1.0 + e_mean) ** 2 / e_var
    ratio = (1.0 + e_mean) * float(weight @ np.exp(-h))  # E[gamma] E[1/gamma] > 1
    if alpha_new > 2.0 * ratio * (alpha_new - 1.0):
        # Differs from [PBP15] Eqs. (9), (10): E[1/gamma] instead of Var[gamma].
        alpha_new = ratio / (ratio - 1.0)
    return alpha_new, alpha_new / mean


class _LogIntegrand:
    """log of sqrt(x/(1 + v x)) exp(-d2 x/(2 + 2 v x)) x^alpha exp(-alpha x), x = exp(u)."""

    def __init__(self, alpha: float, d2: float, v: float) -> None:
        self.alpha, self.d2, self.v = alpha, d2, v

    def slope(self, u: float) -> float:
        """First derivative by u."""
        x = math.exp(u)
        w = 1.0 + self.v * x
        return self.alpha * (1.0 - x) + 0.5 / w - 0.5 * self.d2 * x / w / w

    def modes(self) -> list[float]:
        """Where the slope goes from positive to negative: one u or two.

        (1 + v x)^2 times the slope is a cubic in x. Its turning points, roots of a
        quadratic, divide it into monotone pieces.
        """
        alpha, d2, v = self.alpha, self.d2, self.v
        # The slope is positive below the first of these and negative above the last.
        knots = [math.log(alpha / (alpha + 0.5 * d2)), math.log1p(0.5 / alpha)]
        discriminant = (v + 1.0) * (v + 1.0) + 1.5 * (v - d2) / alpha
        if v > 2.0 and 0.0 < discriminant < (v - 2.0) * (v - 2.0):  # both turn at x > 0
            root = math.sqrt(discriminant)
            turning = (math.log((v - 2.0 + sign * root) / (3.0 * v)) for sign in (-1.0, 1.0))
            knots[1:1] = [u for u in turning if knots[0] < u < knots[-1]]
        signs = [True, *(self.slope(u) > 0.0 for u in knots[1:-1]), False]
        return [
            self._bisect(knots[i], knots[i + 1])
            for i in range(len(knots) - 1)
            if signs[i] and not signs[i + 1]
        ]

    def _bisect(self, lo: float, hi: float) -> float:
        for _ in range(_N_BISECTIONS):
            mid = 0.5 * (lo + hi)
            lo, hi = (mid, hi) if self.slope(mid) > 0.0 else (lo, mid)
        return lo

    def relative_to(self, u0: float, h: FloatArray) -> FloatArray:
        """Log integrand at u0 + h minus that at u0."""
        x0, e = math.exp(u0), np.expm1(h)
        w0 = 1.0 + self.v * x0
        ratio = 1.0 / w0 + self.v * x0 / w0 * np.exp(h)  # (1 + v x)/(1 + v x0)
        return (
            (self.alpha + 0.5) * h
            - self.alpha * x0 * e
            - 0.5 * np.log(ratio)
            - 0.5 * self.d2 * (x0 / w0 / w0) * e / ratio
        )

    def width(self, u: float) -> float:
        """Length on which the integrand changes around u, or less."""
        x = math.exp(u)
        w = 1.0 + self.v * x
        # The terms of the second derivative, each taken by its size.
        curvature = self.alpha * x + 0.5 * self.v * x / w / w + 0.5 * self.d2 * x / w / w
        return min(_MAX_PANEL, 1.0 / math.sqrt(curvature))

    def break_points(self, u0: float, left: float, right: float) -> list[float]:
        """Panel ends, relative to u0, from the tail below `left` to that above `right`."""

        def end(mode: float, direction: float, power: float) -> float:
            """Where x^power times the integrand has fallen by exp(-_DROP) from the mode."""
            step, h = self.width(u0 + mode), 0.0
            while float(self.relative_to(u0 + mode, np.asarray(h))) + power * h > -_DROP:
                h += direction * step
                step = min(2.0 * step, _MAX_PANEL)
            return mode + h

        # E[1/x] weighs the lower tail, E[x^2] the upper.
        lo, hi = end(left, -1.0, -1.0), end(right, +1.0, 2.0)
        points = {lo, hi}
        for mode in {left, right}:
            points.add(mode)
            for direction in (-1.0, 1.0):
                step, h = self.width(u0 + mode), 0.0
                while lo < mode + direction * (h + step) < hi:
                    h += step
                    points.add(mode + direction * h)
                    step = min(h, _MAX_PANEL)
        return sorted(points)


def _panel_nodes(points: list[float]) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on every panel between consecutive points."""
    ends = np.asarray(points)
    half = 0.5 * np.diff(ends)[:, None]
    center = 0.5 * (ends[1:] + ends[:-1])[:, None]
    return (center + half * _NODES).ravel(), (half * _NODE_WEIGHTS).ravel()

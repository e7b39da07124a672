"""PIT recalibration: the shape of a predictive distribution, learned from out-of-fold samples.

With m(x) and s(x) the mean and standard deviation of a predictive distribution, T the Student-t
distribution of unit variance and Phi the normal one, z = Phi^-1(T((y - m) / s)) is the normal score
of a sample: its probability integral transform (PIT), as a normal quantile. Near x, the scores of
out-of-fold samples have the density

    g(z | x) = (sum_i w_i(x) N(z | z_i, h^2) + 2 phi(z)) / (sum_i w_i(x) + 2),

with w_i a Gaussian kernel of width l in (m, log s), each divided by its standard deviation over the
samples. The recalibrated distribution of the target is the one whose scores have this density:
skew, several modes, spikes and caps are learned. A mean outside of the support of the target is
moved to the nearest end, whatever its distance, and then so is the mass outside, so that an end has
a probability of its own and an interval there keeps its width.

Scores are counted in bins, and so are (m, log s), in cells of width l/2. Within a bin the target is
uniform: the distribution function is piecewise linear, and all that follows from it is exact.
Beyond the outermost bins the tails are powers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.distributions.base import (
    Moments,
    Rows,
    TargetDistribution,
    as_rows,
    check_range,
    moments_in_words,
    short_repr,
)
from probprop.distributions.mixture import Mixture
from probprop.distributions.power import BoxCox, TransformedMixture

_Base = Mixture | TransformedMixture
_LAST, _N_BINS = 5.0, 200  # normal scores between -5 and 5; one more bin on each side for the rest
SCORES = np.linspace(-_LAST, _LAST, _N_BINS + 1)  # edges of the bins
_AT_MINUS_3 = int(np.searchsorted(SCORES, -3.0 - 1e-9))  # where moments of transformed targets end
PRIOR = 2.0  # samples that the Student-t distribution counts for
_DOFS = (3.0, 4.0, 6.0, 10.0, 30.0, 100.0)
_WIDTHS, _BANDWIDTHS = (0.1, 0.2, 0.4, 0.8, 1.6, 10.0), (0.05, 0.1, 0.2, 0.3, 0.45, 0.6)
_MAX_CELLS = 1_500
_MAX_SCORED = 2_000  # samples that widths are compared on
_MIN_SAMPLES = 100
_MAX_FOLDS = 10  # that samples are left out by
_MIN_GAIN = 0.01  # nats per sample, and two standard errors
_MIN_OUTSIDE = 1e-3  # mean probability outside of a support that is enforced


class LeftOut(NamedTuple):
    """Counts of the own fold of samples, which their recalibration leaves out.

    Samples of one fold were predicted by the same networks, and may be copies of one another.
    """

    fold: Array  # of each sample, (n,)
    counts: FloatArray  # of each fold, (n_folds, n_counts)

    def of(self, rows: Rows) -> LeftOut:
        """Return the part of some samples."""
        return self._replace(fold=self.fold[as_rows(rows)])


@dataclass(frozen=True, eq=False, repr=False)
class Recalibration:
    """The shape of predictive distributions, learned from out-of-fold samples."""

    center: FloatArray  # (2,), mean of m and log s over the samples, transformed if the targets are
    scale: FloatArray  # (2,), their standard deviation
    cells: FloatArray  # (n_cells, 2), centers of the cells with samples, standardized
    cell: Array  # (n_counts,), cells with samples
    bin: Array  # (n_counts,), and their bins of normal scores
    count: FloatArray  # (n_counts,), number of samples there, or the sum of their weights
    width: float  # l, in units of `scale`
    bandwidth: float  # h
    dof: float  # degrees of freedom of the Student-t distribution, above 2
    low: float = -math.inf  # ends of the support, in target units
    high: float = math.inf
    gain: float = 0.0  # leave-one-fold-out gain in log density per sample, in nats
    gain_error: float = 0.0  # its standard error

    def __repr__(self) -> str:
        return short_repr(self, self.in_words)

    @property
    def in_words(self) -> str:
        """Its effect, in words."""
        ends = f"{'(' if math.isinf(self.low) else '['}{self.low:.6g}, {self.high:.6g}"
        support = f"support {ends}{')' if math.isinf(self.high) else ']'}"
        parts = [f"learned shape (gain {self.gain:.3g} ± {self.gain_error:.2g})"]
        parts = parts if len(self.cells) else []
        bounded = math.isfinite(self.low) or math.isfinite(self.high)
        return ", ".join([*parts, *([support] if bounded else [])])

    @cached_property
    def edges(self) -> FloatArray:
        """Edges of the bins in standard deviations of the target, (n_bins + 1,)."""
        half: FloatArray = stdtrit(self.dof, ndtr(SCORES[: _N_BINS // 2]))
        half *= math.sqrt((self.dof - 2.0) / self.dof)
        return np.concatenate([half, [0.0], -half[::-1]])

    @cached_property
    def _table(self) -> FloatArray:
        return self._smoothed(self.count)

    def _smoothed(self, count: FloatArray) -> FloatArray:
        """Return smoothed counts of every cell, (n_cells, n_bins + 2)."""
        counts = np.zeros((len(self.cells), _N_BINS + 2))
        np.add.at(counts, (self.cell, self.bin), count)
        return counts @ _smoothing(self.bandwidth)

    def masses(self, location: FloatArray, left_out: LeftOut | None = None) -> FloatArray:
        """Return the probability of every bin at (m, log s), (n, 2)."""
        near = _kernel((location - self.center) / self.scale, self.cells, self.width)
        found = near @ self._table
        if left_out is not None:
            for fold, counts in enumerate(left_out.counts):
                own = left_out.fold == fold
                found[own] = np.maximum(found[own] - near[own] @ self._smoothed(counts), 0.0)
        found += PRIOR * _PRIOR_MASS
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def containing(self, y: FloatArray) -> Recalibration:
        """Return it with a support that contains all targets y: exceeded ends are dropped."""
        low = self.low if (y >= self.low).all() else -math.inf
        return replace(self, low=low, high=self.high if (y <= self.high).all() else math.inf)

    def apply(self, base: _Base) -> Recalibrated:
        """Return the recalibrated distribution of the same samples."""
        return Recalibrated(_inside(base, self.low, self.high), self)


@dataclass(frozen=True, eq=False, repr=False)
class Recalibrated(TargetDistribution):
    """A predictive distribution with the mean, standard deviation and shape of a recalibration.

    Only the mean and the standard deviation of the base distribution are used, on the scale of its
    transformation if it has one. `epistemic_std` and `aleatoric_std` keep their ratio. `logpdf` is
    the density without regard to the mass at the ends of the support, and -inf outside. In moments
    and in the CRPS, targets beyond normal scores of 5 count as the target at 5: a probability of
    3e-7 on each side, unless samples had such scores. In moments of transformed targets that score
    is 3, since the inverse transformation of a heavy tail may have no finite mean.

    Parameters
    ----------
    base : Mixture or TransformedMixture
        Predictions of one target.
    recalibration : Recalibration
    left_out : LeftOut or None, default=None
        Leaves out the own fold of samples that the recalibration was learned from.
    """

    base: Mixture | TransformedMixture
    recalibration: Recalibration
    left_out: LeftOut | None = None

    # ---- Moments

    @property
    def std(self) -> FloatArray:
        return self._mean_and_std[1]

    @cached_property
    def _moments(self) -> Moments:
        (mean, std), p = self._mean_and_std, _predicted(self.base)
        return Moments(mean, std * (p.epistemic_std / p.std), std * (p.aleatoric_std / p.std))

    @cached_property
    def _mean_and_std(self) -> tuple[FloatArray, FloatArray]:
        edges, levels = self.recalibration.edges, self._levels
        if _transformation(self.base) is not None:
            edges = np.clip(edges, edges[_AT_MINUS_3], -edges[_AT_MINUS_3])
        Y = self._within(edges)
        # Points at both ends, uniform between two of them.
        mass = np.diff(levels, prepend=0.0, append=1.0)
        low, high = (np.concatenate(ends, axis=1) for ends in ((Y[:, :1], Y), (Y, Y[:, -1:])))
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        mean: FloatArray = (mass * middle).sum(axis=1)
        unit = np.maximum(Y[:, -1] - Y[:, 0], np.finfo(np.float64).tiny)[:, np.newaxis]
        squares = ((middle - mean[:, np.newaxis]) / unit) ** 2 + (half / unit) ** 2 / 3.0
        std: FloatArray = unit[:, 0] * np.sqrt((mass * squares).sum(axis=1))
        return mean, std

    # ---- Samples

    def __repr__(self) -> str:
        return short_repr(self, *moments_in_words(self.mean, self.std), self.recalibration.in_words)

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, rows: Rows) -> Self:
        left_out = None if self.left_out is None else self.left_out.of(rows)
        return type(self)(self.base[rows], self.recalibration, left_out)

    def __getstate__(self) -> dict[str, Any]:
        names = ("base", "recalibration", "left_out")  # the rest follows from these
        return {name: getattr(self, name) for name in names}

    def targets(self) -> list[Self]:
        return [self]

    # ---- Distribution

    def logpdf(self, y: ArrayLike) -> FloatArray:
        at, shape, g = self._at(y), self.recalibration, _transformation(self.base)
        with np.errstate(divide="ignore"):  # of edges, and of targets of density 0
            log_p = np.log(at.mass) - np.log(at.upper - at.lower)
            end = shape.edges[np.where(at.bin == 0, 0, -1)]
            tail = np.log(at.mass * shape.dof / np.abs(end))
            tail -= (shape.dof + 1.0) * np.log(np.maximum(at.e / end, 1.0))
            tail -= np.log(_predicted(self.base).std)
            if g is not None:
                tail += g.log_jacobian(np.where(at.y > 0.0, at.y, g.unit))
        outer = (at.bin == 0) | (at.bin == _N_BINS + 1)
        log_p = np.where(outer, tail, log_p)
        outside = (at.y < shape.low) | (at.y > shape.high)
        if g is not None:
            outside |= at.y <= 0.0
        return np.where(np.isnan(at.y), np.nan, np.where(outside, -np.inf, log_p))

    def cdf(self, y: ArrayLike) -> FloatArray:
        at, shape = self._at(y), self.recalibration
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(at.upper > at.lower, (at.y - at.lower) / (at.upper - at.lower), 1.0)
            tails = [
                at.mass * np.maximum(at.e / end, 1.0) ** -shape.dof for end in shape.edges[[0, -1]]
            ]
        cdf = at.level + at.mass * np.clip(share, 0.0, 1.0)
        cdf = np.where(at.bin == 0, tails[0], cdf)
        cdf = np.where(at.bin == _N_BINS + 1, 1.0 - tails[1], cdf)
        low = shape.low if _transformation(self.base) is None else max(shape.low, 0.0)
        cdf = np.where(at.y < low, 0.0, np.where(at.y >= shape.high, 1.0, cdf))
        return np.where(np.isnan(at.y), np.nan, cdf)

    def ppf(self, q: ArrayLike) -> FloatArray:
        q = np.asarray(q, np.float64)
        check_range("q", "Recalibrated.ppf", q, 0.0, 1.0)
        return self._quantiles(np.broadcast_to(q[..., np.newaxis], (*q.shape, len(self))))

    def rvs(self, size: int, random_state: int | RandomState | None = None) -> FloatArray:
        return self._quantiles(check_random_state(random_state).uniform(size=(size, len(self))))

    def crps(self, y: ArrayLike) -> FloatArray:
        # The integrals of F^2 up to every point, and of (1 - F)^2 from there on.
        # The edges of the bins in target units, within the support, (n, n_bins + 1).
        Y, levels = self._within(self.recalibration.edges), self._levels
        y = np.asarray(y, np.float64)
        steps, zero = np.diff(Y), np.zeros((len(Y), 1))
        before, above = levels[:, :-1], levels[:, 1:]
        squares = steps * (before**2 + before * above + above**2) / 3.0
        lower = np.concatenate([zero, np.cumsum(squares, axis=1)], axis=1)
        squares += steps * (1.0 - before - above)
        upper = np.concatenate([np.cumsum(squares[:, ::-1], axis=1)[:, ::-1], zero], axis=1)
        # The bin of y, with y as one more point in it.
        at = np.clip(y, Y[:, 0], Y[:, -1])
        j = np.searchsorted(self.recalibration.edges, _standardized(self.base, at), side="right")
        j = np.clip(j, 1, _N_BINS)
        rows = np.broadcast_to(np.arange(len(Y)), j.shape)
        a, b, F_a, F_b = Y[rows, j - 1], Y[rows, j], levels[rows, j - 1], levels[rows, j]
        with np.errstate(invalid="ignore"):
            share = np.where(b > a, (at - a) / np.where(b > a, b - a, 1.0), 0.0)
        F = F_a + share * (F_b - F_a)
        score = lower[rows, j - 1] + (at - a) * (F_a**2 + F_a * F + F**2) / 3.0
        G, G_b = 1.0 - F, 1.0 - F_b
        score += upper[rows, j] + (b - at) * (G**2 + G * G_b + G_b**2) / 3.0
        return np.asarray(score + np.abs(y - at))

    # ---- Bins

    @cached_property
    def _masses(self) -> FloatArray:
        """Probability of every bin, (n, n_bins + 2)."""
        return self.recalibration.masses(location_of(self.base), self.left_out)

    @cached_property
    def _levels(self) -> FloatArray:
        """Distribution function at the edges of the bins, (n, n_bins + 1)."""
        return np.cumsum(self._masses[:, :-1], axis=1)

    def _target(self, e: FloatArray) -> FloatArray:
        """Return targets that lie e standard deviations from the mean, in target units."""
        p, g = _predicted(self.base), _transformation(self.base)
        t: FloatArray = p.mean + p.std * e
        return t if g is None else g.inverse(t)

    def _at(self, y: ArrayLike) -> _At:
        y = np.asarray(y, np.float64)
        e, edges = _standardized(self.base, y), self.recalibration.edges
        y = np.broadcast_to(y, e.shape)
        j = np.searchsorted(edges, e, side="right")
        inner = np.clip(j, 1, _N_BINS)
        rows = np.broadcast_to(np.arange(len(self)), e.shape)
        ends = (self._target(edges[inner - 1]), self._target(edges[inner]))
        return _At(y, e, j, self._masses[rows, j], *ends, self._levels[rows, inner - 1])

    def _within(self, e: FloatArray) -> FloatArray:
        """Return targets that lie e standard deviations from the mean, in the support, (n, k)."""
        shape = self.recalibration
        return np.clip(self._target(e[:, np.newaxis]).T, shape.low, shape.high)

    def _quantiles(self, q: FloatArray) -> FloatArray:
        """Return the quantiles of probabilities q, (..., n)."""
        shape, p, n = self.recalibration, q, len(self)
        rows = np.broadcast_to(np.arange(n), p.shape)
        # One sorted array of all samples: the levels of sample i lie in [i, i + 1].
        ladder = (self._levels + np.arange(n)[:, np.newaxis]).ravel()
        j = np.searchsorted(ladder, p + rows, side="left") - rows * (_N_BINS + 1)
        inner = np.clip(j, 1, _N_BINS)
        lower, upper = self._levels[rows, inner - 1], self._levels[rows, inner]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(upper > lower, (p - lower) / (upper - lower), 0.5)
        start, end = self._target(shape.edges[inner - 1]), self._target(shape.edges[inner])
        y = start + np.clip(share, 0.0, 1.0) * (end - start)
        first, last = self._masses[:, 0], self._masses[:, -1]
        with np.errstate(divide="ignore"):
            left = shape.edges[0] * np.maximum(first / p, 1.0) ** (1.0 / shape.dof)
            right = np.maximum(last / np.maximum(1.0 - p, 1e-300), 1.0) ** (1.0 / shape.dof)
        y = np.where(j <= 0, self._target(left), y)
        y = np.where(j > _N_BINS, self._target(shape.edges[-1] * right), y)
        return np.clip(y, shape.low, shape.high)


class _At(NamedTuple):
    """Where targets lie, in the shape of these."""

    y: FloatArray
    e: FloatArray  # in standard deviations from the mean
    bin: Array
    mass: FloatArray  # of the bin
    lower: FloatArray  # its ends, in target units; of an outermost bin, the ends of the next one
    upper: FloatArray
    level: FloatArray  # distribution function at the lower end


# ---- Learning


def recalibrated(
    predictive: _Base,
    y: FloatArray,
    fold: Array,
    weights: FloatArray | None = None,
    support: tuple[float, float] = (-math.inf, math.inf),
    enforce: bool = False,
) -> Recalibrated | None:
    """Learn a recalibration from out-of-fold predictions; None if there is no gain.

    Widths are compared, and the result predicts every sample, without the samples of its `fold`,
    (n,); a single fold is cut into parts, and many are joined. Where the learned shape gains less
    than 0.01 nats or two standard errors, the support alone is enforced if it leaves out 0.1 % of
    the predictive distribution and costs less than 0.01 nats. Below 100 samples neither is used;
    with `enforce` the support is kept in any case.
    """
    if _transformation(predictive) is not None and support[0] <= 0.0:
        support = (-math.inf, support[1])  # the transformed targets have it already
    given, predictive = predictive, _inside(predictive, *support)
    w = np.ones(len(y)) if weights is None else weights / weights.mean()
    e = _standardized(predictive, y)
    dof = max(_DOFS, key=lambda dof: np.average(_log_t(e, dof), weights=w))
    location, nothing = location_of(predictive), np.zeros(0, np.int64)
    center, scale = location.mean(axis=0), location.std(axis=0)
    # Below a hundredth of a standard deviation, differences are those of rounding.
    scale = np.maximum(scale, [0.01 * math.exp(center[1]), 0.01])
    none = (np.zeros((0, 2)), nothing, nothing, np.zeros(0))
    shape = Recalibration(center, scale, *none, 1.0, 1.0, dof, *support)
    fold = (fold if fold.any() else np.arange(len(y))) % _MAX_FOLDS
    tail = stdtr(dof, -np.abs(e) * math.sqrt(dof / (dof - 2.0)))
    z = -np.sign(e) * ndtri(np.maximum(tail, 1e-300))
    bins = np.searchsorted(SCORES, z, side="right")
    if len(y) < _MIN_SAMPLES and not enforce:
        return None
    log_p = given.logpdf(y)
    if len(y) >= _MIN_SAMPLES:
        learned = Recalibrated(
            predictive, *_learned(shape, (location - center) / scale, bins, fold, w)
        )
        learned = _judged(learned, y, log_p, w)
        found = learned.recalibration
        if found.gain > max(_MIN_GAIN, 2.0 * found.gain_error):
            return learned
    outside = given.cdf(support[0]) + (1.0 - given.cdf(support[1]))
    if enforce or np.average(outside, weights=w) > _MIN_OUTSIDE:
        plain = _judged(Recalibrated(predictive, shape), y, log_p, w)
        if enforce or plain.recalibration.gain > -_MIN_GAIN:
            return plain
    return None


def _judged(p: Recalibrated, y: FloatArray, log_p: FloatArray, w: FloatArray) -> Recalibrated:
    """Return the distribution with its gain over the log density log_p."""
    difference, share = p.logpdf(y) - log_p, w / w.sum()
    gain = float(share @ difference)
    error = float(np.sqrt(np.sum((share * (difference - gain)) ** 2)))
    return replace(p, recalibration=replace(p.recalibration, gain=gain, gain_error=error))


def _learned(
    shape: Recalibration, location: FloatArray, bins: Array, fold: Array, w: FloatArray
) -> tuple[Recalibration, LeftOut]:
    """Return the recalibration with the best widths, by the leave-one-fold-out log score."""
    some = np.linspace(0, len(bins) - 1, min(len(bins), _MAX_SCORED)).astype(np.intp)
    n_folds, best, counted, score = int(fold.max()) + 1, shape, np.zeros(0), -math.inf
    smoothings = {h: _smoothing(h)[:, bins[some]].T for h in _BANDWIDTHS}
    for width in _WIDTHS:
        half = 0.5 * width
        grid, cell = np.unique(np.rint(location / half), axis=0, return_inverse=True)
        cells, cell = half * grid, cell.ravel()
        if len(cells) > _MAX_CELLS:
            continue
        counts = np.zeros((n_folds, len(cells), _N_BINS + 2))
        np.add.at(counts, (fold, cell, bins), w)
        near, total = _kernel(location[some], cells, width), counts.sum(axis=0)
        found = near @ total
        for k, own in enumerate(counts):
            of_fold = fold[some] == k
            found[of_fold] -= near[of_fold] @ own
        sums = found.sum(axis=1) + PRIOR
        for h, smoothing in smoothings.items():
            mass = np.maximum(np.einsum("ij,ij->i", found, smoothing), 0.0)
            mass += PRIOR * _PRIOR_MASS[bins[some]]
            value = float(np.average(np.log(mass / sums), weights=w[some]))
            if value > score:
                at = np.nonzero(total)
                best = replace(shape, cells=cells, cell=at[0], bin=at[1], count=total[at])
                best = replace(best, width=width, bandwidth=h)
                counted, score = counts[:, at[0], at[1]], value
    return best, LeftOut(fold, counted)


def _inside(base: _Base, low: float, high: float) -> _Base:
    """Return the distributions with their means, on the scale of a transformation, in a support."""
    p, g = _predicted(base), _transformation(base)
    if g is not None:
        low = float(g.forward(low)) if low > 0.0 else -math.inf
        high = float(g.forward(high))
    shift = np.clip(p.mean, low, high) - p.mean
    if not shift.any():
        return base
    moved = replace(p, means=p.means + shift)
    return moved if g is None else TransformedMixture(moved, g)


def location_of(base: _Base) -> FloatArray:
    """Return (m, log s) of samples, (n, 2), on the scale of a transformation."""
    predicted = _predicted(base)
    return np.stack([predicted.mean, np.log(predicted.std)], axis=1)


def _predicted(base: _Base) -> Mixture:
    return base.transformed if isinstance(base, TransformedMixture) else base


def _transformation(base: _Base) -> BoxCox | None:
    return base.transformation if isinstance(base, TransformedMixture) else None


def _standardized(base: _Base, y: FloatArray) -> FloatArray:
    """Return how many standard deviations targets lie from the mean."""
    predicted, g = _predicted(base), _transformation(base)
    with np.errstate(divide="ignore"):
        t = y if g is None else g.forward(np.maximum(y, 0.0))
    return np.asarray((t - predicted.mean) / predicted.std)


def _log_t(e: FloatArray, dof: float) -> FloatArray:
    """Return the log density of the Student-t distribution of unit variance."""
    constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof) - 0.5 * math.log(math.pi)
    log_p: FloatArray = constant - 0.5 * math.log(dof - 2.0)
    return log_p - 0.5 * (dof + 1.0) * np.log1p(e**2 / (dof - 2.0))


def _kernel(at: FloatArray, cells: FloatArray, width: float) -> FloatArray:
    """Return the Gaussian kernel between locations and cells, (n, n_cells)."""
    columns = []
    for j in (0, 1):  # the cells are on a grid
        grid, place = np.unique(cells[:, j], return_inverse=True)
        columns.append(np.exp(-0.5 * ((at[:, j, np.newaxis] - grid) / width) ** 2)[:, place])
    first, second = columns
    first *= second
    return first


def _smoothing(bandwidth: float) -> FloatArray:
    """Return the probabilities of all bins around the middle of each, (n_bins + 2, n_bins + 2)."""
    middle = np.concatenate([SCORES[:1], 0.5 * (SCORES[1:] + SCORES[:-1]), SCORES[-1:]])
    below = ndtr((SCORES - middle[:, np.newaxis]) / bandwidth)
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


_PRIOR_MASS: FloatArray = np.diff(ndtr(SCORES), prepend=0.0, append=1.0)

"""The predictive distribution of targets: a mixture of Gaussians with uncertain noise variance.

    p(y) = sum_s w_s E[N(y | means[s], epistemic_stds[s]^2 + V)],    E[V] = aleatoric_stds[s]^2.

Each of the S members is a network whose output is Gaussian under q. A noise rule says how the noise
variance V is distributed: it is known (Gaussian noise), its logarithm is Gaussian (a noise network,
heavy tails), or its inverse has a Gamma distribution (Student-t noise). [PBP15] Eq. (12) replaces
the Student-t by the Gaussian of the same variance; section 3 of the supplement is about the error.

cpp/mixture.hpp and cpp/student_t.hpp have the integrals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from probprop import _kernel
from probprop._types import FloatArray
from probprop.distributions import base

_LARGEST_DOF = 2e12  # the number of nodes grows with its root where two modes merge
_Arguments = tuple[str, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]
_LARGEST_TAIL = 1000.0  # above, the median of the noise variance is e^-500 of its mean


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Mixture(base.TargetDistribution):
    """The predictive distribution of the targets of n samples: a mixture of S members.

    Parameters
    ----------
    means : array-like of shape (S, n) or (S, n, K)
        Mean of the target in each member, in target units. Where there are K targets, each has a
        mixture of its own.
    epistemic_stds : array-like of shape (S, n) or (S, n, K)
        Standard deviation of the network output in each member, in target units; 0 or more.
    aleatoric_stds : float, or array-like with as many axes as means
        Standard deviation of the noise in each member, in target units; above 0. An array has the
        shape of means, or 1 instead of any of its axes: (S, 1) is noise that does not depend on
        the sample. The attribute has the shape of means.
    weights : array-like of shape (S,), default=None
        Weights of the members, 0 or more; None means equal weights. The attribute sums to 1.
    tail : float or array-like as aleatoric_stds, default=None
        Variance of the logarithm of the noise variance, 0 or more and below 1000: heavy tails, of
        which most of the noise may come from a few large errors. None is Gaussian noise.
    dof : float or array-like as aleatoric_stds, default=None
        Degrees of freedom of Student-t noise, above 2; more than 2e12 count as 2e12. None is
        Gaussian noise.

    Examples
    --------
    >>> p = Mixture([[-3.0, 10.0], [3.0, 10.0]], [[0.0, 0.0], [0.0, 0.0]], [[4.0], [4.0]])
    >>> p
    Mixture(n=2, mean from 0 to 10, std from 4 to 5, n_components=2)
    >>> p.mean, p.epistemic_std, p.std
    (array([ 0., 10.]), array([3., 0.]), array([5., 4.]))
    >>> p.logpdf([0.0, 100.0]).round(2), p.cdf([0.0, 100.0])
    (array([  -2.59, -255.43]), array([0.5, 1. ]))
    >>> p.ppf([0.1, 0.5]).round(2)
    array([[-6.49,  4.87],
           [ 0.  , 10.  ]])
    >>> lower, upper = p.interval([0.5, 0.9])
    >>> upper.round(2)
    array([[ 3.52, 12.7 ],
           [ 8.19, 16.58]])
    >>> p.crps([0.0, 100.0]).round(2), p.rvs(3, random_state=0).shape
    (array([ 1.21, 87.74]), (3, 2))
    >>> Mixture.of_one([0.0, 10.0], [3.0, 0.0], 4.0, tail=2.0).logpdf([0.0, 100.0]).round(2)
    array([ -2.33, -15.89])
    >>> Mixture.of_one([0.0, 10.0], [3.0, 0.0], 4.0, dof=12.0).logpdf([0.0, 100.0]).round(2)
    array([ -2.5 , -27.87])
    """

    means: FloatArray
    epistemic_stds: FloatArray
    aleatoric_stds: FloatArray
    weights: FloatArray
    tail: FloatArray | None
    dof: FloatArray | None

    def __init__(
        self,
        means: ArrayLike,
        epistemic_stds: ArrayLike,
        aleatoric_stds: ArrayLike,
        weights: ArrayLike | None = None,
        tail: ArrayLike | None = None,
        dof: ArrayLike | None = None,
    ) -> None:
        means, epistemic_stds = _floats(means), _floats(epistemic_stds)
        if means.ndim not in (2, 3) or epistemic_stds.shape != means.shape or not len(means):
            raise ValueError(
                "'means' and 'epistemic_stds' must be arrays of the same shape, (S, n) or "
                "(S, n, K), with one member or more. "
                f"Got shapes {means.shape} and {epistemic_stds.shape} instead."
            )
        if tail is not None and dof is not None:
            raise ValueError("Give 'tail' or 'dof', not both: the noise has one distribution.")
        base.check_range("epistemic_stds", "Mixture", epistemic_stds, 0.0, np.inf, closed=True)
        vars(self).update(
            means=means,
            epistemic_stds=epistemic_stds,
            aleatoric_stds=_of_members("aleatoric_stds", aleatoric_stds, means, 0.0, np.inf, False),
            weights=base.member_weights(weights, len(means)),
            tail=_of_members("tail", tail, means, 0.0, _LARGEST_TAIL, True),
            dof=_of_members("dof", dof, means, 2.0, np.inf, False),
        )

    @classmethod
    def of_one(
        cls,
        mean: ArrayLike,
        epistemic_std: ArrayLike,
        aleatoric_std: ArrayLike,
        *,
        tail: ArrayLike | None = None,
        dof: ArrayLike | None = None,
    ) -> Self:
        """Return the distribution of a single member.

        The first two have the shape (n,) or (n, K), and the others broadcast to it: a float is for
        all samples and targets, (K,) has one value per target.

        Examples
        --------
        >>> both = Mixture.of_one([[0.0, 10.0]], [[3.0, 0.0]], [4.0, 1.0])
        >>> [one.std for one in both.targets()]
        [array([5.]), array([1.])]
        """
        mean = _floats(mean)

        def stacked(value: Any) -> Any:
            if value is None or isinstance(value, float):
                return value
            array = np.asarray(value, np.float64)
            return array.reshape((1,) * (mean.ndim + 1 - array.ndim) + array.shape)

        return cls(
            mean[np.newaxis],
            _floats(epistemic_std)[np.newaxis],
            stacked(aleatoric_std),
            tail=stacked(tail),
            dof=stacked(dof),
        )

    # ---- Moments

    @property
    def n_components(self) -> int:
        """Number of members."""
        return len(self.means)

    @property
    def mean(self) -> FloatArray:
        return base.average(self.means, self.weights)

    @property
    def epistemic_std(self) -> FloatArray:
        return self._root(self.epistemic_stds, spread=True)

    @property
    def aleatoric_std(self) -> FloatArray:
        return self._root(self.aleatoric_stds, spread=False)

    @property
    def std(self) -> FloatArray:
        return self._root(self.epistemic_stds, self.aleatoric_stds, spread=True)

    def _root(self, *stds: FloatArray, spread: bool) -> FloatArray:
        """Return the root of the mean variance, with the variance of the means if `spread`."""
        if len(self.means) == 1:
            return np.asarray((np.hypot(*stds) if len(stds) > 1 else stds[0])[0])
        parts = [*stds, self.means - self.mean] if spread else stds
        return base.root_mean_square(parts, self.weights)

    # ---- Rows and targets

    def __repr__(self) -> str:
        words = [*base.moments_in_words(self.mean, self.std), f"n_components={len(self.means)}"]
        if self.means.size:
            words += [
                base.span(k, v) for k in ("tail", "dof") if (v := getattr(self, k)) is not None
            ]
        return base.short_repr(self, *words)

    def __len__(self) -> int:
        return len(self.means[0])

    def __getitem__(self, rows: base.Rows) -> Self:
        return self._at(base.as_rows(rows))

    def targets(self) -> list[Self]:
        if self.means.ndim == 2:
            return [self]
        return [self._at(slice(None), k) for k in range(self.means.shape[2])]

    def _at(self, *index: Any) -> Self:
        """Return the mixture of some entries of (n,) or (n, K), which need no further check."""
        part, at = object.__new__(type(self)), (slice(None), *index)
        for name, value in vars(self).items():
            vars(part)[name] = value if name == "weights" or value is None else value[at]
        return part

    # ---- Distribution

    def logpdf(self, y: ArrayLike) -> FloatArray:
        if self._is_gaussian:
            std = self.std
            with np.errstate(over="ignore"):  # -inf is right beyond 1e154 standard deviations
                z = (np.asarray(y, np.float64) - self.means[0]) / std
                log_p: FloatArray = -0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - np.log(std)
            return log_p
        return self._of_targets("logpdf", y)

    def cdf(self, y: ArrayLike) -> FloatArray:
        if self._is_gaussian:
            with np.errstate(over="ignore"):
                cdf: FloatArray = ndtr((np.asarray(y, np.float64) - self.means[0]) / self.std)
            return cdf
        return self._of_targets("cdf", y)

    def crps(self, y: ArrayLike) -> FloatArray:
        return self._of_targets("crps", y)

    def crps_behind(self, z: ArrayLike, power: float) -> FloatArray:
        """Return the CRPS of targets whose Box-Cox transform, with that power, is distributed so.

        z are transformed targets; the score is in the unit of the transformation.
        """
        return self._of_targets("crps", z, power)

    def ppf(self, q: ArrayLike) -> FloatArray:
        q = np.asarray(q, np.float64)
        base.check_range("q", "Mixture.ppf", q, 0.0, 1.0)
        return self._quantiles(np.minimum(q, 1.0 - q), ndtri(q))

    def interval(self, coverage: ArrayLike = 0.95) -> tuple[FloatArray, FloatArray]:
        base.check_range("coverage", "Mixture.interval", coverage, 0.0, 1.0)
        tail = 0.5 * (1.0 - np.asarray(coverage, np.float64))
        z = ndtri(tail)
        lower, upper = self._quantiles(np.stack([tail, tail]), np.stack([z, -z]))
        return lower, upper

    def rvs(self, size: int, random_state: int | RandomState | None = None) -> FloatArray:
        rng = check_random_state(random_state)
        n = len(self)
        at: Any = 0
        if len(self.means) > 1:
            at = rng.choice(len(self.means), size=(size, n), p=self.weights), np.arange(n)
        mean, epistemic_std, aleatoric_std = (
            a[at] for a in (self.means, self.epistemic_stds, self.aleatoric_stds)
        )
        shape = (size, *self.means.shape[1:])
        draws: FloatArray
        if self.dof is not None:
            dof = self.dof[at]
            # A Student-t has the variance dof/(dof - 2).
            noise = np.sqrt((dof - 2.0) / dof) * rng.standard_t(dof, shape)
            draws = mean + epistemic_std * rng.standard_normal(shape) + aleatoric_std * noise
        elif self.tail is not None:
            model, noise, u = (rng.standard_normal(shape) for _ in range(3))
            scale = np.exp(0.5 * np.sqrt(self.tail[at]) * u - 0.25 * self.tail[at])
            draws = mean + epistemic_std * model + aleatoric_std * scale * noise
        else:
            draws = mean + np.hypot(epistemic_std, aleatoric_std) * rng.standard_normal(shape)
        return draws

    # ---- The kernel

    @property
    def _is_gaussian(self) -> bool:
        return len(self.means) == 1 and self.tail is None and self.dof is None

    def _members(self, samples: tuple[int, ...]) -> _Arguments:
        """Return the first arguments of the kernel: arrays (S, n, K), without copies of float64.

        They are broadcast to `samples`, (n,) or (n, K).
        """
        noise, shape = "gaussian", np.zeros((1,) * self.means.ndim)
        if self.tail is not None:
            noise, shape = "log_normal", self.tail
        elif self.dof is not None:
            noise, shape = "student_t", 0.5 * np.minimum(self.dof, _LARGEST_DOF)
        stacks = (self.means, self.epistemic_stds, self.aleatoric_stds, shape)
        full, last = (len(self.means), *samples), np.s_[..., *(np.newaxis,) * (2 - len(samples))]
        arrays = (np.asarray(stack, np.float64) for stack in stacks)
        # NumPy's function takes microseconds.
        mean, epistemic_std, aleatoric_std, shape = (
            (a if a.shape == full else np.broadcast_to(a, full))[last] for a in arrays
        )
        return noise, self.weights, mean, epistemic_std, aleatoric_std, shape

    def _of_targets(self, query: str, y: ArrayLike, power: float | None = None) -> FloatArray:
        """Evaluate a function of the kernel at targets, which broadcast."""
        y = np.asarray(y, np.float64)
        shape = np.broadcast_shapes(y.shape, self.means.shape[1:])
        samples = shape[len(shape) - self.means.ndim + 1 :]
        at = np.ascontiguousarray(np.broadcast_to(y, shape))
        at = at.reshape(math.prod(shape[: -len(samples)]), *samples, *(1,) * (2 - len(samples)))
        return _kernel.mixture(query, *self._members(samples), at, power=power).reshape(shape)

    def _quantiles(self, tail: FloatArray, z: FloatArray) -> FloatArray:
        """Return the targets beyond which there is probability `tail`, at most 1/2.

        z, of the same shape, is the quantile of the standard normal; above 0 for upper tails.
        """
        shape = (*tail.shape, *self.means.shape[1:])
        if self._is_gaussian:
            normal: FloatArray = np.reshape(z, z.shape + (1,) * (self.means.ndim - 1))
            return np.asarray(self.means[0] + self.std * normal)
        members = self._members(shape[tail.ndim :])
        return _kernel.mixture("quantile", *members, np.ravel(tail), np.ravel(z)).reshape(shape)


def _floats(values: ArrayLike) -> FloatArray:
    """Return an array of floats, without a copy if possible; single precision stays."""
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _of_members(
    name: str, value: ArrayLike | None, means: FloatArray, low: float, high: float, closed: bool
) -> FloatArray | None:
    """Return a checked quantity of the members in the shape of their means; None stays None."""
    if value is None:
        return None
    base.check_range(name, "Mixture", value, low, high, closed=closed)
    array = np.asarray(value, np.float64)
    if array.shape == means.shape:
        return array
    same = all(a in (1, b) for a, b in zip(array.shape, means.shape, strict=False))
    if array.ndim not in (0, means.ndim) or not same:
        raise ValueError(
            f"{name!r} must be a float, or an array with the axes of 'means' that broadcasts to "
            f"one per member and target, {means.shape}. Got the shape {array.shape} instead."
        )
    return np.broadcast_to(array, means.shape)


@dataclass(frozen=True, eq=False, repr=False)
class SeveralTargets(base.TargetDistribution):
    """Predictive distributions of K targets of the same n samples, each with its own calibration.

    Parameters
    ----------
    each : tuple of TargetDistribution
        The distribution of each target, of shape (n,).
    """

    each: tuple[Any, ...]

    def _stack(self, of: Callable[[Any], ArrayLike]) -> FloatArray:
        return np.stack([of(one) for one in self.each], axis=-1)

    def _at(self, name: str, y: ArrayLike) -> FloatArray:
        values = np.asarray(y, np.float64)
        shape = np.broadcast_shapes(values.shape, (len(self), len(self.each)))
        columns = np.moveaxis(np.broadcast_to(values, shape), -1, 0)
        pairs = zip(self.each, columns, strict=True)
        return np.stack([getattr(one, name)(own) for one, own in pairs], axis=-1)

    @property
    def _moments(self) -> base.Moments:
        return base.Moments(*(self._stack(attrgetter(k)) for k in base.Moments._fields))

    @property
    def std(self) -> FloatArray:
        return self._stack(attrgetter("std"))

    def logpdf(self, y: ArrayLike) -> FloatArray:
        return self._at("logpdf", y)

    def cdf(self, y: ArrayLike) -> FloatArray:
        return self._at("cdf", y)

    def crps(self, y: ArrayLike) -> FloatArray:
        return self._at("crps", y)

    def ppf(self, q: ArrayLike) -> FloatArray:
        return self._stack(lambda one: one.ppf(q))

    def interval(self, coverage: ArrayLike = 0.95) -> tuple[FloatArray, FloatArray]:
        pairs = zip(*(one.interval(coverage) for one in self.each), strict=True)
        low, high = (np.stack(ends, axis=-1) for ends in pairs)
        return low, high

    def rvs(self, size: int, random_state: int | RandomState | None = None) -> FloatArray:
        rng = check_random_state(random_state)
        return self._stack(lambda one: one.rvs(size, rng))

    def targets(self) -> list[Any]:
        return list(self.each)

    def __repr__(self) -> str:
        return base.short_repr(self, *base.moments_in_words(self.mean, self.std))

    def __len__(self) -> int:
        return len(self.each[0])

    def __getitem__(self, rows: base.Rows) -> SeveralTargets:
        return SeveralTargets(tuple(one[rows] for one in self.each))

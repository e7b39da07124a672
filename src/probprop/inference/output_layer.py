"""The output layer with a full covariance: Bayesian linear regression on features of a network.

The network stays as it was trained. The features of a sample, phi, are the mean outputs of its last
hidden layer and its standardized inputs, M together, centered. The standardized target is

    y = b + w' phi + noise,   w ~ N(0, I/lambda),   noise ~ N(0, 1/alpha),

with a flat prior of b. Given alpha and lambda the posterior of w is a Gaussian whose covariance
(lambda I + alpha S)^-1 is full, S the sum of phi phi'. Both precisions maximize the evidence, with
the hyperpriors Gam(1e-6, 1e-6) of scikit-learn's `BayesianRidge`, by MacKay's fixed point:

    gamma  = sum_i alpha s_i/(lambda + alpha s_i),   s_i the eigenvalues of S,
    lambda = (gamma + 2e-6)/(|m|^2 + 2e-6),
    alpha  = (n - gamma + 2e-6)/(|y - b - Phi m|^2 + 2e-6),   m the posterior mean of w.

In the basis of the eigenvectors of S, which are computed once, a step is a sum over M numbers. A
sample of weight w has the noise variance 1/(alpha w) and counts w times in S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probprop._types import FloatArray

_HYPERPRIOR = 2e-6  # twice the shape and the rate of the Gammas of alpha and lambda
_MOST_STEPS = 1000
_TOLERANCE = 1e-9  # of the logarithms of both precisions


@dataclass(frozen=True, eq=False, repr=False)
class OutputLayer:
    """The posterior of the regression of K standardized targets on M features."""

    center: FloatArray  # (M,), means of the features in the training data
    axes: FloatArray  # (M, M), eigenvectors of S in its columns
    coef: FloatArray  # (M, K), posterior means of the weights along the axes
    variance: FloatArray  # (M, K), their posterior variances
    intercept: FloatArray  # (K,), mean of b
    intercept_variance: FloatArray  # (K,)
    noise_variance: FloatArray  # (K,), 1/alpha of each target, in standardized units squared

    def moments(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance, without noise, of the targets of samples, (n, K) each."""
        along = (features - self.center) @ self.axes
        mean = self.intercept + along @ self.coef
        return mean, self.intercept_variance + along**2 @ self.variance

    def after(self, block: Block) -> OutputLayer:
        """Return the posterior after more samples, whose features the same network has made.

        The sums over the samples before follow from the posterior; both precisions stay.
        """
        M, alpha = len(self.center), 1.0 / self.noise_variance
        total = 1.0 / (alpha[0] * self.intercept_variance[0])
        lam = 1.0 / self.variance.max(axis=0)  # that of the prior, and what all axes have in common
        s = (1.0 / self.variance[:, 0] - lam[0]) / alpha[0]
        mean = np.concatenate([self.center, self.intercept, [1.0]])
        products = total * np.outer(mean, mean)
        products[:M, :M] += (self.axes * s) @ self.axes.T
        products[:M, M:-1] += self.axes @ (self.coef / (alpha * self.variance))
        products[M:-1, :M] = products[:M, M:-1].T
        return _regression(products + block.products, M, lambda s, along, squares: (alpha, lam))


class Block(NamedTuple):
    """Features and standardized targets of some samples."""

    features: FloatArray  # (n, M)
    y: FloatArray  # (n, K)
    weights: FloatArray | None = None  # (n,); None: each is 1

    @property
    def products(self) -> FloatArray:
        """Sums of the products of features, targets and 1, (M + K + 1, M + K + 1)."""
        rows = np.column_stack([self.features, self.y, np.ones(len(self.y))])
        return np.asarray((rows.T if self.weights is None else rows.T * self.weights) @ rows)


def fit_output_layer(blocks: Iterable[Block]) -> OutputLayer:
    """Return the regression on samples that come in blocks: the normal equations are added up."""
    n, M, products = 0, 0, np.zeros((1, 1))
    for block in blocks:
        products = products + block.products
        n, M = n + len(block.y), block.features.shape[1]

    def best(s: FloatArray, along: FloatArray, squares: FloatArray) -> tuple[FloatArray, ...]:
        pairs = zip(along.T, squares.tolist(), strict=True)
        return tuple(np.array([_evidence(s, c, square, n) for c, square in pairs]).T)

    return _regression(products, M, best)


def _regression(
    products: FloatArray, M: int, precisions: Callable[..., tuple[FloatArray, ...]]
) -> OutputLayer:
    """Return the posterior, given what finds alpha and lambda, (K,), from the axes."""
    total, mean = products[-1, -1], products[-1, :-1] / products[-1, -1]
    centered = products[:-1, :-1] - total * np.outer(mean, mean)
    s, axes = np.linalg.eigh(centered[:M, :M])
    seen = s > M * np.finfo(np.float64).eps * s[-1]  # the rest is rounding
    s = np.where(seen, s, 0.0)
    along = np.where(seen, axes, 0.0).T @ centered[:M, M:]
    alpha, lam = precisions(s, along, np.diag(centered)[M:])
    precision = lam + alpha * s[:, np.newaxis]
    return OutputLayer(
        center=mean[:M],
        axes=axes,
        coef=alpha * along / precision,
        variance=1.0 / precision,
        intercept=mean[M:],
        intercept_variance=1.0 / (alpha * total),
        noise_variance=1.0 / alpha,
    )


def _evidence(s: FloatArray, c: FloatArray, square: float, n: int) -> tuple[float, float]:
    """Return alpha and lambda that maximize the evidence of one target.

    `c` is the sum of phi y along the axes, and `square` the sum of y^2, centered.
    """
    alpha, lam = (n + _HYPERPRIOR) / (square + _HYPERPRIOR), 1.0
    for _ in range(_MOST_STEPS):
        precision = lam + alpha * s
        coef = alpha * c / precision
        gamma = float((alpha * s / precision).sum())
        residual = max(square - 2.0 * float(coef @ c) + float(coef @ (s * coef)), 0.0)
        before = alpha, lam
        lam = (gamma + _HYPERPRIOR) / (float(coef @ coef) + _HYPERPRIOR)
        alpha = (n - gamma + _HYPERPRIOR) / (residual + _HYPERPRIOR)
        if np.abs(np.log([alpha / before[0], lam / before[1]])).max() < _TOLERANCE:
            break
    return alpha, lam

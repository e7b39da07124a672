"""What training carries (the posterior approximation) and what it observes (counts).

[PBP15] Eq. (8): q(W, gamma, lambda) is a product of one Gaussian per weight and
two Gammas, for the noise precision gamma and the prior precision lambda.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.output_layer import OutputLayer

LAYERED = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
"""The fields of a `Posterior` that have an array per layer."""


def flat(layers: tuple[Array, ...]) -> Array:
    """Return the arrays of all layers in one, as the kernel takes them."""
    return np.concatenate([layer.ravel() for layer in layers])


def cut(arrays: Sequence[Array], like: tuple[Array, ...]) -> list[tuple[Array, ...]]:
    """Cut flat arrays, each into views shaped like these layers.

    >>> cut([np.arange(5.0)], (np.ones((1, 2)), np.ones((1, 3))))
    [(array([[0., 1.]]), array([[2., 3., 4.]]))]
    """
    places, start = [], 0
    for layer in like:  # numpy's split takes longer than a small pass
        end = start + layer.size
        places.append((slice(start, end), layer.shape))
        start = end
    return [tuple([whole[at].reshape(shape) for at, shape in places]) for whole in arrays]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """The approximate posterior q, with its approximate prior factors.

    It is [PBP15] Eq. (8). Every tuple has one array per layer, input to output, each of shape
    (n_out, n_in + 1) with the bias in the last column.

    Parameters
    ----------
    m_w, v_w : tuple of ndarray
        Means and variances of the weights, float64 or float32.
    alpha_noise, beta_noise : ndarray of shape (K,)
        Shape and rate of the Gamma of the noise precision gamma of each target; where the
        likelihood has a noise that is not learned, one pair.
    alpha_prior, beta_prior : float
        Shape and rate of the Gamma of the prior precision lambda.
    v_hat_nat : tuple of ndarray
        Precision of the Gaussian part of each approximate prior factor S(32);
        float64. Its mean is exactly zero and is not stored.
    a_hat_nat, b_hat_nat : tuple of ndarray
        Natural parameters of the Gamma part of each approximate prior factor:
        shape minus one, and minus the rate; float64.
    noise_network : Posterior or None, default=None
        The network of heteroscedastic noise: its outputs, one per target,
        are the logarithms of the noise variances in units of `noise_variance`.
    tail : ndarray of shape (n_outputs,), default=None
        Variance of the logarithm of the noise variance of each output, around the level's
        E[1/gamma]; 0 is Gaussian noise. None: all are 0.
    output_layer : OutputLayer or None, default=None
        The output layer with a full covariance, which predictions use instead of the last layer
        here; training goes on without it.
    """

    m_w: tuple[Array, ...]
    v_w: tuple[Array, ...]
    alpha_noise: FloatArray
    beta_noise: FloatArray
    alpha_prior: float
    beta_prior: float
    v_hat_nat: tuple[FloatArray, ...]
    a_hat_nat: tuple[FloatArray, ...]
    b_hat_nat: tuple[FloatArray, ...]
    noise_network: Posterior | None = None
    tail: FloatArray = None  # type: ignore[assignment]
    output_layer: OutputLayer | None = None

    def __post_init__(self) -> None:
        if self.tail is None:
            object.__setattr__(self, "tail", np.zeros(len(self.m_w[-1])))
        for name in ("alpha_noise", "beta_noise"):  # a number is for one target
            value = np.asarray(getattr(self, name), np.float64)
            object.__setattr__(self, name, value if value.ndim else value.reshape(1))

    def __repr__(self) -> str:
        layers = "-".join(map(str, self.layer_sizes))
        noise = ", ".join(f"{variance:.3g}" for variance in self.noise_variance)
        parts = [layers, str(self.dtype), f"noise variance {noise}"]
        if self.tail.any():
            parts.append("tail " + ", ".join(f"{tail:.3g}" for tail in self.tail))
        return f"Posterior({', '.join(parts)}, prior variance {self.prior_variance:.3g})"

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Units per layer from the input (bias excluded) to the outputs."""
        return (self.m_w[0].shape[1] - 1, *(m.shape[0] for m in self.m_w))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the weights' means and variances."""
        return self.m_w[0].dtype

    @property
    def noise_variance(self) -> FloatArray:
        """E[1/gamma] = beta/(alpha - 1), (K,), in standardized target units squared.

        With a tail or heteroscedastic noise it is the level that the noise
        variance varies around. With an `output_layer` it is the noise variance there.
        """
        if self.output_layer is not None:
            return self.output_layer.noise_variance
        return self.beta_noise / (self.alpha_noise - 1.0)

    @property
    def prior_variance(self) -> float:
        """E[1/lambda] = beta/(alpha - 1)."""
        return self.beta_prior / (self.alpha_prior - 1.0)


@dataclass(frozen=True)
class Memory:
    """Bound on the evidence in q during training; see `probprop.reference.adf.temper`."""

    capacity: float  # in points, at least 1: with `evidence_cap` M and N points it is M * N
    noise_shape: float  # Gamma prior of the noise precision, toward which q is tempered
    noise_rate: float

    @property
    def every(self) -> int:
        """Updates between two tempering steps; the evidence varies by 1/64 meanwhile."""
        return max(1, int(min(64.0, self.capacity / 64.0)))

    def share(self, n_points: int) -> float:
        """Return the combined share of `n_points` steps of 1/capacity each."""
        if self.capacity == 1.0:
            return 1.0
        return -math.expm1(n_points * math.log1p(-1.0 / self.capacity))


@dataclass(frozen=True)
class PassInfo:
    """Observations of one ADF pass."""

    log_Z_sum: float  # over the points used, standardized units
    n_points: int  # points offered
    n_undone: int  # weight updates undone: the new variance was not positive and finite
    n_guarded: int  # noise updates made by quadrature: the closed form was not valid
    n_skipped: int  # points skipped: their log Z or its gradient was not finite
    d_tail_sum: tuple[float, ...] = ()  # sums of dlogZ/dtail of each output, if there are tails


@dataclass(frozen=True)
class SweepInfo:
    """Observations of one refinement sweep: counts of unchanged prior factors."""

    n_skipped: int  # their cavity was not a valid distribution
    n_uninformative: int  # the data are not informative about their weight


class Records(NamedTuple):
    """Observations of every epoch of a training, one row each."""

    log_Z_sums: FloatArray  # (n_epochs,), standardized units
    # (n_epochs, 4): updates undone, noise updates by quadrature, points and prior factors skipped
    counts: Array
    noise: FloatArray  # (n_epochs, 2, K), shape and rate of the noise precisions after the epoch
    prior: FloatArray  # (n_epochs, 2), shape and rate of the prior precision after the epoch
    tail: FloatArray  # (n_epochs, n_outputs), the tails of the noise after the epoch

    @classmethod
    def of_epoch(
        cls, posterior: Posterior, passed: PassInfo | None = None, swept: SweepInfo | None = None
    ) -> Self:
        """Return the record of one epoch that ended with this posterior."""
        of_pass = PassInfo(0.0, 0, 0, 0, 0) if passed is None else passed
        n_skipped = 0 if swept is None else swept.n_skipped
        counts = of_pass.n_undone, of_pass.n_guarded, of_pass.n_skipped, n_skipped
        return cls(
            log_Z_sums=np.array([of_pass.log_Z_sum]),
            counts=np.array([counts]),
            noise=np.array([[posterior.alpha_noise, posterior.beta_noise]]),
            prior=np.array([[posterior.alpha_prior, posterior.beta_prior]]),
            tail=posterior.tail[np.newaxis].copy(),
        )

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Self:
        """Return the records of epochs one after the other."""
        return cls(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


class Epoch(NamedTuple):
    """One epoch as `history_` and callbacks show it.

    A list of these makes a table: ``pandas.DataFrame(model.history_)``.
    """

    n_iter: int
    """Passes made so far, this one included."""
    n_points: int
    """Number of points used in this pass."""
    mean_log_Z: float
    """Mean of log Z over those points, in target units."""
    noise_variance: float | tuple[float, ...]
    """E[1/gamma] after the epoch, in target units squared, with several targets of each; of a
    classifier 1, the probit's own."""
    prior_variance: float
    """E[1/lambda] after the pass."""
    n_undone: int
    """Weight updates undone because the new variance was not positive and finite."""
    n_guarded: int
    """Noise updates made by quadrature because the closed form was not valid."""
    n_skipped_points: int
    """Points left out because their log Z was not finite."""
    n_skipped_factors: int
    """Prior factors left as they were because their cavity was not a distribution."""
    n_held: int = 0
    """With `n_shards`, or on a cluster: precisions of weights that a round would have made less
    than any of its shards has, and Gammas of the noise that it left as they were."""

    @property
    def noise_std(self) -> tuple[float, ...]:
        """Root of the variance of the noise, in target units: a value per target."""
        variances = self.noise_variance
        each = (variances,) if isinstance(variances, float) else variances
        return tuple(math.sqrt(variance) for variance in each)

    @property
    def sum_log_Z(self) -> float:
        """Sum of log Z over the points of the pass, in target units."""
        return self.mean_log_Z * self.n_points


def initial_posterior(
    layer_sizes: Sequence[int],
    *,
    noise_shape: float | FloatArray,
    noise_rate: float | FloatArray,
    prior_shape: float,
    prior_rate: float,
    random_state: np.random.RandomState,
    dtype: np.dtype[Any],
) -> Posterior:
    """Multiply in the priors, S(33) and S(34), then perturb the means (section 3.5).

    The layers are features, hidden layers, outputs. The Gamma prior of the noise precision is one
    pair, or (K,) of each target. The generator draws one standard normal per weight, layer by
    layer.
    """
    shapes = [(n_out, n_in + 1) for n_in, n_out in pairwise(layer_sizes)]
    v_prior = float(prior_rate) / (float(prior_shape) - 1.0)
    # Differs from [PBP15] section 3.5: the text gives the perturbation the variance
    # 1/(V_l + 1), the authors' code 1/(V_{l-1} + 1); the latter reproduces the tables.
    m_w = tuple((random_state.standard_normal(s) / np.sqrt(s[1])).astype(dtype) for s in shapes)
    return Posterior(
        m_w=m_w,
        v_w=tuple(np.full(s, v_prior, dtype) for s in shapes),
        alpha_noise=np.asarray(noise_shape, np.float64),
        beta_noise=np.asarray(noise_rate, np.float64),
        alpha_prior=float(prior_shape),
        beta_prior=float(prior_rate),
        v_hat_nat=tuple(np.full(s, 1.0 / v_prior) for s in shapes),
        a_hat_nat=tuple(np.zeros(s) for s in shapes),
        b_hat_nat=tuple(np.zeros(s) for s in shapes),
    )


_SHARE_DRAWN = 0.9


def near_a_draw(posterior: Posterior) -> Posterior:
    """Let the layers between two hidden layers begin near a network drawn from the prior.

    Differs from [PBP15] section 3.5, for a network that uses every row once, and in cross-validated
    estimators. With means of variance 1/(V_{l-1} + 1) a layer passes on about 1/sqrt(V_{l-1} + 1)
    of what its inputs differ in: the units of a deep layer are nearly identical, and for many
    passes the network learns little but a constant. Here nine tenths of the prior variance of these
    weights are in their means and one in their variances. The second moments are still the prior's,
    so that they do not bias lambda.
    """
    first, *middle, last = zip(posterior.m_w, posterior.v_w, strict=True)
    std_drawn = math.sqrt(_SHARE_DRAWN * posterior.prior_variance)
    drawn = [(m * (math.sqrt(m.shape[1]) * std_drawn), v * (1.0 - _SHARE_DRAWN)) for m, v in middle]
    m_w, v_w = zip(first, *drawn, last, strict=True)
    return replace(posterior, m_w=m_w, v_w=v_w)

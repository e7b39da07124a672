"""
The compiled kernels of probprop; use them through probprop.inference.engine.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def cpu_level() -> str:
    """The instruction set in use."""

def cpu_levels() -> list[str]:
    """Those this machine can run, fastest first."""

class Basis:
    """Piecewise-linear functions of columns; see cpp/kernel.hpp."""

    def __init__(self, first_knot: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], origin: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], first_term: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], input: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], at_origin: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], slope: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_inputs: int) -> None: ...

class ListedRows:
    """Rows of which only inputs that are not 0 are looked at."""

    @overload
    def __init__(self, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray, dict(shape=(None,), order='C', device='cpu', writable=False)], n_inputs: int) -> None:
        """Compressed rows (CSR)."""

    @overload
    def __init__(self, X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], basis: Basis, filled: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None = None) -> None:
        """
        The columns of X by a basis; where they are NaN the inputs that are filled.
        """

@overload
def adf_pass(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, y: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], likelihood: str, alpha: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], memory: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float, int, float, float] | None = None, X_var: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, weighting: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, float] | None = None, tail: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], float, int, int, int, Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]]]: ...

@overload
def adf_pass(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, y: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], likelihood: str, alpha: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], memory: tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], float, int, float, float] | None = None, X_var: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, weighting: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, float] | None = None, tail: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], float, int, int, int, Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]]]:
    """
    One ADF pass; returns (m_w, v_w, (alpha, beta, log_Z_sum, n_undone, n_guarded, n_skipped, d_tail_sum)).
    """

@overload
def predict_moments(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, X_var: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]]: ...

@overload
def predict_moments(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, X_var: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]]:
    """Mean and variance of the outputs per row, without noise."""

@overload
def predict_gradient(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]]: ...

@overload
def predict_gradient(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]]:
    """
    Those moments, (n,) each, and their derivatives by the entries of X, (n, D) each.
    """

@overload
def refine_prior(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], a_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], b_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha: float, beta: float, informative_ratio: float, group: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], tuple[float, float, int, int]]: ...

@overload
def refine_prior(sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], a_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], b_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha: float, beta: float, informative_ratio: float, group: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], tuple[float, float, int, int]]:
    """
    One sweep over the prior factors; returns (m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, (alpha, beta, n_skipped, n_uninformative)).
    """

class Members64:
    """The networks of an ensemble, which see the same rows."""

    def __init__(self, members: Sequence[tuple[Sequence[int], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None]]) -> None:
        """Each is (sizes, m_w, v_w, scaling or None)."""

    def moments(self, X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, n_threads: int = 1) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C')]]:
        """
        Mean and variance of the outputs, (members, rows, outputs) each, without noise.
        """

class Members32:
    """The networks of an ensemble, which see the same rows."""

    def __init__(self, members: Sequence[tuple[Sequence[int], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None]]) -> None:
        """Each is (sizes, m_w, v_w, scaling or None)."""

    def moments(self, X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, n_threads: int = 1) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C')]]:
        """
        Mean and variance of the outputs, (members, rows, outputs) each, without noise.
        """

def class_log_probabilities(m: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]:
    """
    The log of the probability of every class, (n, K), from the outputs' moments.
    """

def class_log_probability(m: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], c: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]:
    """
    The log of the probability of one class per row, (n,), from the outputs' moments.
    """

def sampled_outputs(weights: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]], X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, x_mean: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], x_scale: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], y_mean: float, y_scale: float, with_gradient: bool = False) -> tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]]:
    """
    f, (n,), of a network with known weights, and its derivatives by the entries of X, (n, D), else (0, 0).
    """

def mixture(query: str, noise: str, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], mean: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), device='cpu', writable=False)], epistemic_std: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), device='cpu', writable=False)], aleatoric_std: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), device='cpu', writable=False)], shape: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), device='cpu', writable=False)], at: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], normal_at: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, power: float | None = None) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C')]:
    """
    Log density, probability or CRPS of targets, or quantiles of tails: (n_at, rows, targets), of mixtures whose arrays are (members, rows, targets).
    """

def power_moments(m: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], epistemic_std: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], aleatoric_std: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], power: float) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C')]:
    """
    Mean and standard deviations, (3, n), of targets behind a Box-Cox transformation, in its unit.
    """

class Job64:
    """A training from a posterior on, over the same points."""

    def __init__(self, sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], a_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], b_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha_noise: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta_noise: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha_prior: float, beta_prior: float, informative_ratio: float, X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, y: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], likelihood: str, refine: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], X_scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None, y_scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None, X_var: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, memory: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float, int, float, float] | None = None, generator: tuple[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], int] | None = None, orders: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, weighting: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, float] | None = None, noise_network: tuple[Sequence[int], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float, int, float, float] | None, Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None = None, tail: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, tail_rate: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, due: Annotated[NDArray[numpy.bool_], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, group: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    def noise_weights(self) -> object:
        """
        Means and variances of the weights of the network of the noise, and its tails; or None.
        """

    def result(self) -> tuple:
        """
        (m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, alpha_noise, beta_noise, tail, alpha_prior, beta_prior) and (n_epochs, log_Z_sum, counts, noise, prior, tail) of the whole epochs.
        """

    def generator(self) -> object:
        """The generator after them, or None."""

@overload
def train(jobs: Sequence[Job64], n_threads: int = 1) -> object: ...

@overload
def train(jobs: Sequence[Job32], n_threads: int = 1) -> object:
    """
    Make the epochs of all jobs; returns the exception of an interrupt, or None.
    """

class Job32:
    """A training from a posterior on, over the same points."""

    def __init__(self, sizes: Sequence[int], m_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_w: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], a_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], b_hat_nat: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha_noise: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta_noise: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha_prior: float, beta_prior: float, informative_ratio: float, X: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)] | ListedRows, y: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], likelihood: str, refine: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], X_scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None, y_scaling: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], float] | None = None, X_var: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, memory: tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], float, int, float, float] | None = None, generator: tuple[Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], int] | None = None, orders: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, weighting: tuple[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, float] | None = None, noise_network: tuple[Sequence[int], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], float, int, float, float] | None, Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None = None, tail: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, tail_rate: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, due: Annotated[NDArray[numpy.bool_], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, group: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    def noise_weights(self) -> object:
        """
        Means and variances of the weights of the network of the noise, and its tails; or None.
        """

    def result(self) -> tuple:
        """
        (m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, alpha_noise, beta_noise, tail, alpha_prior, beta_prior) and (n_epochs, log_Z_sum, counts, noise, prior, tail) of the whole epochs.
        """

    def generator(self) -> object:
        """The generator after them, or None."""

@overload
def relu_moments(m_a: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v_a: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(6, None), order='C')]: ...

@overload
def relu_moments(m_a: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], v_a: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float32], dict(shape=(6, None), order='C')]:
    """Rows m_z, v_z, dm_z/dm, dm_z/dv, dv_z/dm, dv_z/dv."""

def log_Z(likelihood: str, m: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], alpha: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], tail: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> tuple[float, Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]]:
    """
    log Z of one point, and its derivatives by m and by v, (K,) each; alpha and beta are shapes and rates of the noise precisions, tail the variances of log noise variances.
    """

def scale_mixture(d: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], mu: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], var: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(5, None), order='C')]:
    """
    Rows log Z and its derivatives by mu, var, the mean and v, of residuals d whose noise has a log-normal variance.
    """

def gamma_increments(alpha: float, beta: float, d2: float, v: float) -> tuple[float, float]:
    """What Eq. (9)(10) add to alpha and beta."""

def gamma_moments_by_quadrature(alpha: float, beta: float, d2: float, v: float) -> tuple[float, float]:
    """The exact moments, as a Gamma."""

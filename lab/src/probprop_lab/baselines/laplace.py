"""LaplaceRegressor: MacKay's evidence framework, the LA of [PBP15]."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from probprop._types import FloatArray
from probprop.distributions.mixture import Mixture
from probprop.estimators.validation import (
    check_above,
    check_inputs,
    check_int,
    check_layer_sizes,
    check_option,
)
from probprop_lab.baselines.base import (
    Baseline,
    gaussian,
    in_target_units,
    scalar,
    standardized,
    training_data,
)

_MAX_WEIGHTS = 3000  # of the full Hessian: 72 MB and about a second per factorization
_LEAST, _LARGEST = 1e-6, 1e6  # of alpha and beta: targets and weights of standardized networks
_GRADIENT_TOLERANCE = 1e-6  # of the optimizer, per weight

Layers = list[tuple[int, int]]
"""Shapes of the weights, (n_out, n_in + 1) per layer."""


class Precisions(NamedTuple):
    """Precision of the weights, `alpha`, and of the noise, `beta`."""

    alpha: float
    beta: float


START = Precisions(0.1, 10.0)
"""Start of the evidence updates: a weak prior and little noise, so unneeded weights decay later."""


class LaplaceRegressor(Baseline):
    """Neural network regression by Laplace's approximation.

    It is the LA of [PBP15]_: tanh units, weights with the prior N(0, 1/alpha), noise N(0, 1/beta).
    The weights are at the minimum of ::

        M(w) = beta/2 sum_n (y_n - f(x_n; w))^2 + alpha/2 |w|^2,

    where their posterior is taken as N(w, A^-1), with A = alpha I + beta J^T J, the
    Gauss-Newton (Levenberg-Marquardt) approximation to the Hessian of M; J is the Jacobian of
    the outputs. With it the precisions are re-estimated by the evidence updates of [M92]_, ::

        gamma = sum_i lambda_i/(lambda_i + alpha),  alpha = gamma/|w|^2,
        beta = (n - gamma)/sum_n (y_n - f_n)^2,

    lambda_i being the eigenvalues of beta J^T J. Both steps alternate until alpha and beta
    settle. Predictions are linear in the weights around w: variance g^T A^-1 g + 1/beta.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is Bayesian linear regression.
    hessian : {"diagonal", "full"}, default="diagonal"
        "diagonal" keeps the diagonal of J^T J, as [PBP15]_ does. "full" keeps all of it, for
        networks of at most 3,000 weights.
    max_iter : int, default=200
        Evidence updates at most.
    tol : float, default=1e-3
        Stop when alpha and beta change by less than this relative amount. Above 0.
    random_state : int, RandomState instance or None, default=None
        Draws the initial weights.

    Attributes
    ----------
    weights_ : list of ndarray of shape (n_out, n_in + 1)
        The mode, bias in the last column.
    alpha_, beta_ : float
        Precisions of the weights and of the noise, in standardized units.
    n_effective_ : float
        gamma, the number of weights the data determine.
    noise_variance_ : float
        1/beta in target units squared.
    n_iter_ : int
        Evidence updates made.
    converged_ : bool
        Whether alpha and beta settled.
    standardizer_ : Standardizer
        Means and scales of the training data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names.

    Notes
    -----
    The diagonal counts the weights as if they were independent, so gamma is too large, and
    with it alpha and the noise; it may even exceed the number of data, therefore it is at most
    n - 1 in the update of beta. [PBP15]_ blames this for the failure of LA, whose printed
    test errors equal the spread of the targets: alpha grew until every weight was 0. Here that
    happens in some networks of two hidden layers; networks of one are saved by a start with a
    weak prior and little noise.

    The full Hessian of a network that can meet every target may find hardly any noise. alpha
    and beta are kept within 1e-6 and 1e6, in standardized units.

    References
    ----------
    .. [M92] D. J. C. MacKay, "A Practical Bayesian Framework for Backpropagation Networks",
       Neural Computation 4, 1992.
    .. [PBP15] J. M. Hernández-Lobato and R. P. Adams, "Probabilistic Backpropagation for
       Scalable Learning of Bayesian Neural Networks", ICML 2015.

    Examples
    --------
    >>> from probprop_lab.baselines import LaplaceRegressor
    >>> from probprop_lab.datasets import toy_cubic
    >>> X, y = toy_cubic(20, random_state=4)
    >>> model = LaplaceRegressor(10, hessian="full", random_state=0).fit(X, y)
    >>> model.converged_, bool(model.score(X, y) > 0.9)
    (True, True)
    """

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        hessian: str = "diagonal",
        max_iter: int = 200,
        tol: float = 1e-3,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.hessian = hessian
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Start afresh; alternate between the weights and the evidence updates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        hidden = check_layer_sizes(self.hidden_layer_sizes)
        check_option("hessian", self.hessian, ["diagonal", "full"])
        check_int("max_iter", self.max_iter, 1)
        check_above("tol", self.tol, 0.0)
        data = training_data(self, X, y)
        Xs, ys = data.Xs, data.ys
        layers = [(n_out, n_in + 1) for n_in, n_out in pairwise([Xs.shape[1], *hidden, 1])]
        if self.hessian == "full":
            _check_n_weights(layers)

        w = initial_weights(layers, data.random_state)
        precisions = START
        self.converged_ = False
        for n_iter in range(1, self.max_iter + 1):
            w = most_probable_weights(w, layers, Xs, ys, precisions)
            f, J = outputs_and_jacobian(w, layers, Xs)
            spectrum = gauss_newton_spectrum(J, self.hessian)
            estimate, self.n_effective_ = evidence_update(spectrum, w, ys - f, precisions)
            self.n_iter_ = n_iter
            if np.abs(np.log(np.divide(estimate, precisions))).max() < self.tol:
                self.converged_ = True
                break
            # Half the way, on the scale of logarithms: the plain updates may alternate.
            precisions = Precisions(*np.sqrt(np.multiply(estimate, precisions)).tolist())
        if not self.converged_:
            warnings.warn(
                f"LaplaceRegressor did not converge in {self.max_iter} evidence updates: increase "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.alpha_, self.beta_ = precisions
        self.weights_ = unflatten(w, layers)
        self.standardizer_ = data.standardizer
        self.noise_variance_ = scalar(data.standardizer.y_scale) ** 2 / self.beta_
        self._factor = posterior_factor(J, precisions, self.hessian)
        return self

    def predict_distribution(self, X: ArrayLike) -> Mixture:
        """Return the Gaussian predictive distribution of the target for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        Mixture
            In target units. The noise variance is taken as known.
        """
        check_is_fitted(self)
        Xs = standardized(self.standardizer_, check_inputs(self, X))
        layers = [(w.shape[0], w.shape[1]) for w in self.weights_]
        f, J = outputs_and_jacobian(flatten(self.weights_), layers, Xs)
        return gaussian(
            in_target_units(self.standardizer_, f),
            scalar(self.standardizer_.y_scale) * np.sqrt(output_variance(J, self._factor)),
            self.noise_variance_**0.5,
        )


def initial_weights(layers: Layers, random_state: RandomState) -> FloatArray:
    """Draw all weights from N(0, 1), where the 1/sqrt(n_in + 1) of the network belongs."""
    return random_state.standard_normal(sum(n_out * n_in for n_out, n_in in layers))


def flatten(weights: Sequence[FloatArray]) -> FloatArray:
    """Return all weights as one vector, layer by layer and row by row."""
    return np.concatenate([w.ravel() for w in weights])


def unflatten(w: FloatArray, layers: Layers) -> list[FloatArray]:
    """Return the vector of all weights as one array per layer."""
    ends = np.cumsum([n_out * n_in for n_out, n_in in layers])
    return [part.reshape(shape) for part, shape in zip(np.split(w, ends), layers, strict=False)]


def forward(w: FloatArray, layers: Layers, X: FloatArray) -> list[FloatArray]:
    """Return the inputs of every layer, bias unit included and scaled, and then the output.

    Shapes (n, n_in + 1) per layer and (n,).
    """
    z, path = X, []
    for layer, weights in enumerate(unflatten(w, layers)):
        x = np.hstack([z, np.ones((len(z), 1))]) / np.sqrt(weights.shape[1])  # [PBP15] section 2
        path.append(x)
        a = x @ weights.T
        z = np.tanh(a) if layer < len(layers) - 1 else a
    return [*path, z[:, 0]]


def backward(
    w: FloatArray, layers: Layers, path: list[FloatArray], d_f: FloatArray
) -> list[FloatArray]:
    """Return d_f times the derivative of the output by every pre-activation, (n, n_out) each."""
    weights = unflatten(w, layers)
    d_a = [d_f[:, None]]
    for x, above in zip(path[-2:0:-1], weights[:0:-1], strict=True):
        scale = np.sqrt(x.shape[1])
        z = x[:, :-1] * scale  # tanh(a), whose derivative is 1 - z^2
        d_a.append((d_a[-1] @ above[:, :-1]) / scale * (1.0 - z**2))
    return d_a[::-1]


def outputs_and_jacobian(
    w: FloatArray, layers: Layers, X: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the outputs, (n,), and their derivatives by the weights, (n, n_weights)."""
    *inputs, f = path = forward(w, layers, X)
    d_a = backward(w, layers, path, np.ones(len(X)))
    parts = [
        (d[:, :, None] * x[:, None, :]).reshape(len(X), -1)
        for d, x in zip(d_a, inputs, strict=True)
    ]
    return f, np.hstack(parts)


def energy_and_gradient(
    w: FloatArray, layers: Layers, X: FloatArray, y: FloatArray, precisions: Precisions
) -> tuple[float, FloatArray]:
    """Return M(w) and its gradient, (n_weights,)."""
    alpha, beta = precisions
    *inputs, f = path = forward(w, layers, X)
    d_a = backward(w, layers, path, beta * (f - y))
    gradient = flatten([d.T @ x for d, x in zip(d_a, inputs, strict=True)]) + alpha * w
    return float(0.5 * beta * np.sum((y - f) ** 2) + 0.5 * alpha * w @ w), gradient


def most_probable_weights(
    w: FloatArray, layers: Layers, X: FloatArray, y: FloatArray, precisions: Precisions
) -> FloatArray:
    """Minimize M from w with L-BFGS, which is deterministic."""
    scale = max(precisions)  # M of order n, so that the tolerance of its gradient is relative

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        energy, gradient = energy_and_gradient(w, layers, X, y, precisions)
        return energy / scale, gradient / scale

    options = {"maxiter": 5000, "maxfun": 20000, "gtol": _GRADIENT_TOLERANCE, "ftol": 1e-14}
    found: FloatArray = minimize(objective, w, jac=True, method="L-BFGS-B", options=options).x
    return found


def gauss_newton_spectrum(J: FloatArray, hessian: str) -> FloatArray:
    """Return the eigenvalues of J^T J that can differ from 0, or of its diagonal."""
    if hessian == "diagonal":
        diagonal: FloatArray = np.sum(J**2, axis=0)
        return diagonal
    smaller = J @ J.T if J.shape[0] < J.shape[1] else J.T @ J
    eigenvalues: FloatArray = np.maximum(np.linalg.eigvalsh(smaller), 0.0)
    return eigenvalues


def evidence_update(
    spectrum: FloatArray, w: FloatArray, residuals: FloatArray, precisions: Precisions
) -> tuple[Precisions, float]:
    """Re-estimate alpha and beta as [M92] does.

    Parameters
    ----------
    spectrum : ndarray
        Eigenvalues of J^T J.
    w : ndarray of shape (n_weights,)
    residuals : ndarray of shape (n,)
    precisions : Precisions
        With which w was found.

    Returns
    -------
    precisions_new : Precisions
    n_effective : float
        gamma, the number of well-determined weights.
    """
    alpha, beta = precisions
    gamma = float(np.sum(beta * spectrum / (beta * spectrum + alpha)))
    n_left = len(residuals) - gamma
    if len(spectrum) > len(residuals):  # Differs from [M92]: a diagonal's gamma may exceed n.
        n_left = max(n_left, 1.0)
    return (
        Precisions(_bounded(gamma, np.sum(w**2)), _bounded(n_left, np.sum(residuals**2))),
        gamma,
    )


def posterior_factor(J: FloatArray, precisions: Precisions, hessian: str) -> FloatArray:
    """Return the lower Cholesky factor of A, or the square root of its diagonal, (n_weights,)."""
    alpha, beta = precisions
    if hessian == "diagonal":
        root: FloatArray = np.sqrt(alpha + beta * np.sum(J**2, axis=0))
        return root
    A = beta * (J.T @ J) + alpha * np.eye(J.shape[1])
    return np.asarray(np.linalg.cholesky(A), np.float64)


def output_variance(J: FloatArray, factor: FloatArray) -> FloatArray:
    """Return g^T A^-1 g for every row g of J, (n,)."""
    whitened = (J / factor).T if factor.ndim == 1 else solve_triangular(factor, J.T, lower=True)
    variance: FloatArray = np.sum(whitened**2, axis=0)
    return variance


def _bounded(numerator: float, denominator: np.float64) -> float:
    """The ratio within the bounds of a precision, also where the denominator is 0."""
    if not denominator * _LARGEST > numerator:
        return _LARGEST
    return max(float(numerator / denominator), _LEAST)


def _check_n_weights(layers: Layers) -> None:
    n_weights = sum(n_out * n_in for n_out, n_in in layers)
    if n_weights > _MAX_WEIGHTS:
        raise ValueError(
            f"hessian='full' of LaplaceRegressor is for at most {_MAX_WEIGHTS} weights; this "
            f"network has {n_weights}. Choose fewer hidden units, or hessian='diagonal'."
        )

"""The networks that are timed, the data they see, and the speed expected of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.posterior import Posterior, initial_posterior

TARGET_GFLOPS = 90.0
"""Single-thread dgemm rate of the core on which the target rates were measured."""

N_ROWS = 10_000
DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Shape:
    """One network, with its targets.

    Parameters
    ----------
    n_features : int
    hidden : tuple of int
        Units of each hidden layer.
    targets : dict of str to float
        Updates per second by dtype, on a core with `TARGET_GFLOPS`.
    n_reference : int
        Updates that the reference engine makes in about half a second.
    min_ratios : dict of str to float
        How many times as fast as the reference the native engine must be, by dtype.
    """

    n_features: int
    hidden: tuple[int, ...]
    targets: dict[str, float]
    n_reference: int
    min_ratios: dict[str, float]

    @property
    def name(self) -> str:
        """Features and hidden layers: ``13, 50-50``; many equal layers are ``13, 50x4``."""
        sizes = self.hidden
        layers = f"{sizes[0]}x{len(sizes)}" if len(sizes) > 2 else "-".join(map(str, sizes))
        return f"{self.n_features}, {layers}"


def _shape(
    n_features: int,
    hidden: tuple[int, ...],
    float64: float,
    float32: float,
    n_reference: int,
    min_ratio: float | None = None,
) -> Shape:
    targets = {"float64": float64, "float32": float32}
    min_ratios = {} if min_ratio is None else {"float64": min_ratio}
    return Shape(n_features, hidden, targets, n_reference, min_ratios)


SHAPES = (
    _shape(13, (50,), 2.5e6, 3.8e6, 2000, min_ratio=200.0),
    _shape(9, (100,), 1.7e6, 3.0e6, 2000),
    _shape(90, (100,), 308e3, 677e3, 1000, min_ratio=60.0),
    _shape(13, (50, 50), 446e3, 888e3, 800),
    _shape(13, (50, 50, 50, 50), 180e3, 285e3, 500),
    _shape(90, (1000,), 28e3, 58e3, 200),
)


def made_data(n_rows: int, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Draw standard normal features and a target that is not linear in them."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n_rows, n_features))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(n_rows)
    return X, (y - y.mean()) / y.std()


@dataclass(frozen=True)
class Case:
    """A shape in one dtype, with data and the posterior before any point."""

    shape: Shape
    dtype: str
    X: Array
    y: FloatArray
    posterior: Posterior

    @property
    def name(self) -> str:
        """The shape and the dtype."""
        return f"({self.shape.name}) {self.dtype}"

    @property
    def target(self) -> float:
        """Updates per second, on a core with `TARGET_GFLOPS`."""
        return self.shape.targets[self.dtype]


def first_posterior(n_features: int, hidden: tuple[int, ...], dtype: str) -> Posterior:
    """Return the posterior before any point."""
    return initial_posterior(
        [n_features, *hidden, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=np.random.RandomState(1),
        dtype=np.dtype(dtype),
    )


def make_case(shape: Shape, dtype: str, n_rows: int = N_ROWS) -> Case:
    X, y = made_data(n_rows, shape.n_features)
    posterior = first_posterior(shape.n_features, shape.hidden, dtype)
    return Case(shape, dtype, X.astype(dtype), y, posterior)

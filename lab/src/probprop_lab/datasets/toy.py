"""The toy problem of the paper."""

from __future__ import annotations

from numpy.random import RandomState

from probprop._types import FloatArray


def toy_cubic(
    n: int = 20, random_state: int | RandomState | None = None
) -> tuple[FloatArray, FloatArray]:
    """Draw the toy data of [PBP15] section 5.3: y = x^3 + noise of std 3, x uniform in [-4, 4].

    Returns X, (n, 1), and y, (n,). The `random_state` 4 spreads 20 points over the whole range.
    """
    rng = random_state if isinstance(random_state, RandomState) else RandomState(random_state)
    x = rng.uniform(-4.0, 4.0, n)
    return x[:, None], x**3 + rng.normal(0.0, 3.0, n)

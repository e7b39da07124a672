"""The toy problem of the paper."""

from __future__ import annotations

from numpy.random import RandomState

from probprop._types import FloatArray

_NOISE_STD = 3.0


def toy_cubic(
    n: int = 20, random_state: int | RandomState | None = None
) -> tuple[FloatArray, FloatArray]:
    """Draw the toy data of [PBP15] section 5.3: y = x^3 + noise, x uniform in [-4, 4].

    Parameters
    ----------
    n : int, default=20
    random_state : int, RandomState instance or None, default=None
        4 spreads the 20 points over the whole range.

    Returns
    -------
    X : ndarray of shape (n, 1)
    y : ndarray of shape (n,)
        The noise has standard deviation 3.

    Examples
    --------
    >>> X, y = toy_cubic(random_state=4)
    >>> X.shape, y.shape
    ((20, 1), (20,))
    """
    rng = random_state if isinstance(random_state, RandomState) else RandomState(random_state)
    x = rng.uniform(-4.0, 4.0, n)
    return x[:, None], x**3 + rng.normal(0.0, _NOISE_STD, n)

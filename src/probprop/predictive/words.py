"""Distributions in a few words: what their representations say instead of whole arrays."""

from __future__ import annotations

from probprop._types import FloatArray


def span(name: str, values: FloatArray) -> str:
    """Return the range of some values in words.

    Examples
    --------
    >>> import numpy as np
    >>> span("std", np.array([61.04, 52.0]))
    'std from 52 to 61'
    """
    return f"{name} from {values.min():.3g} to {values.max():.3g}"


def short_repr(of: object, *parts: str) -> str:
    """Return a representation that says what an object is, without its arrays."""
    return f"{type(of).__name__}({', '.join(parts)})"


def moments_in_words(mean: FloatArray, std: FloatArray) -> list[str]:
    """Return the number of rows and the ranges of their moments, as a representation has them.

    Several targets have several units, so their ranges would say nothing.

    Examples
    --------
    >>> import numpy as np
    >>> moments_in_words(np.array([51.2, 290.0]), np.array([52.0, 61.0]))
    ['n=2', 'mean from 51.2 to 290', 'std from 52 to 61']
    >>> moments_in_words(np.zeros((5, 3)), np.ones((5, 3)))
    ['n=5', 'n_targets=3']
    """
    n = f"n={len(mean)}"
    if mean.ndim > 1:
        return [n, f"n_targets={mean.shape[1]}"]
    return [n, span("mean", mean), span("std", std)] if len(mean) else [n]

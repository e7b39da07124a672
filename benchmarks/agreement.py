"""Compare the native engine with the reference: speed counts for right results only."""

from __future__ import annotations

import numpy as np

from probprop._types import Array, FloatArray
from probprop.inference.posterior import Posterior

# In float32 the engines round differently at every point, and the error of one point enters the
# next: over the passes compared here we measured up to 1e-5 (1e-14 in float64).
RTOL = {"float64": 1e-10, "float32": 1e-4}


class WrongAnswerError(Exception):
    """A benchmark computed a wrong result."""


def check_posteriors(name: str, native: Posterior, reference: Posterior) -> float:
    """Return the largest relative difference of two posteriors; raise if it is above `RTOL`."""
    layers = zip(native.m_w, native.v_w, reference.m_w, reference.v_w, strict=True)
    differences = [_difference(*layer) for layer in layers]
    for field in ("alpha_noise", "beta_noise"):
        differences.append(abs(getattr(native, field) / getattr(reference, field) - 1.0))
    return _within(name, max(differences), RTOL[str(reference.dtype)])


def check_moments(
    name: str, native: tuple[Array, Array], reference: tuple[Array, Array], dtype: str
) -> float:
    """Return the largest relative difference of two predictions; raise if above `RTOL`."""
    return _within(name, _difference(*native, *reference), RTOL[dtype])


def check_close(name: str, found: FloatArray, expected: FloatArray, rtol: float) -> float:
    """Return the largest difference over the largest expected number; raise if above `rtol`."""
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    return _within(name, float(difference), rtol)


def _difference(m: Array, v: Array, m_expected: Array, v_expected: Array) -> float:
    """Largest relative difference of Gaussians; a mean counts as known to its own std."""
    d_m = np.abs(m - m_expected) / (np.abs(m_expected) + np.sqrt(v_expected))
    d_v = np.abs(v - v_expected) / v_expected
    return float(max(d_m.max(), d_v.max()))


def _within(name: str, difference: float, rtol: float) -> float:
    if not difference <= rtol:
        raise WrongAnswerError(
            f"{name}: it differs from what it should be by {difference:.2g}, more than {rtol:.0e}."
        )
    return difference

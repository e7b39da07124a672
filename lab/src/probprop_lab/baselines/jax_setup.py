"""Double precision in jax, only where it is requested."""

from __future__ import annotations

from contextlib import AbstractContextManager

import jax


def double_precision() -> AbstractContextManager[None]:
    """Compute in float64 inside a ``with`` block; the user's own configuration is left alone."""
    context: AbstractContextManager[None] = jax.enable_x64(True)
    return context

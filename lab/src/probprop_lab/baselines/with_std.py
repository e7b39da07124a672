"""The common interface of the compared methods: a mean and a standard deviation per sample."""

from __future__ import annotations

from typing import Literal, overload

from numpy.random import RandomState
from sklearn.base import BaseEstimator, RegressorMixin

from probprop._types import Array, FloatArray

Random = int | RandomState | None


class WithStd(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Turns `moments`, the predicted means and standard deviations, into ``predict``."""

    def moments(self, X: Array) -> tuple[FloatArray, FloatArray]:
        """Return the means and standard deviations, (n,) each, in target units."""
        raise NotImplementedError

    @overload
    def predict(self, X: Array, return_std: Literal[False] = False) -> FloatArray: ...
    @overload
    def predict(self, X: Array, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: Array, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the means, (n,), and with `return_std` the standard deviations, (n,)."""
        mean, std = self.moments(X)
        return (mean, std) if return_std else mean

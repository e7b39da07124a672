"""The piecewise-linear encoding with scikit-learn's interface."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_scalar, validate_data

from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import PiecewiseLinear, encode, fit_piecewise


class PiecewiseLinearEncoder(
    OneToOneFeatureMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Encode each column as itself and as ramps between its quantiles.

    Bin b of a column, with the ends k_b and k_{b+1}, becomes the ramp
    clip((x - k_b) / (k_{b+1} - k_b), 0, 1). Columns and ramps have zero mean and unit variance over
    the training samples. A linear function of them is a piecewise-linear function of the column.
    Outside of the training range ramps are constant.

    Parameters
    ----------
    n_bins : int, default=32
        Maximum number of ramps per column, at least 2. The knots are the training values nearest
        to the n_bins + 1 evenly spaced quantiles, or all distinct values if there are no more.

    Attributes
    ----------
    state_ : PiecewiseLinear
        Knots, means and scales as plain arrays.
    knots_ : list of ndarray
        The knots of each column, in its units; empty if it has no ramps.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if all of them are strings.

    Notes
    -----
    Columns with at most two distinct knots have no ramps. Values that differ by less than 1e-12 of
    their size count as one. A column that is constant in `fit` becomes 0.

    NaN is a missing value: it is ignored in `fit`, and NaN in the column and in all its ramps
    in `transform`. Infinities are refused.

    With more than 200,000 samples the knots are quantiles of 200,000 samples, drawn with a fixed
    seed, and the ends of the range; means and scales are computed from all samples.

    Examples
    --------
    >>> from probprop import PiecewiseLinearEncoder
    >>> encoder = PiecewiseLinearEncoder().fit([[1.0], [1.5], [4.0]])
    >>> encoder.transform([[1.25], [10.0]]).round(2)
    array([[-0.7 , -0.35, -0.71],
           [ 5.97,  0.71,  1.41]])
    >>> encoder.get_feature_names_out()
    array(['x0', 'x0 from 1 to 1.5', 'x0 from 1.5 to 4'], dtype=object)
    """

    def __init__(self, n_bins: int = 32) -> None:
        self.n_bins = n_bins

    def fit(self, X: ArrayLike, y: Any = None) -> PiecewiseLinearEncoder:
        """Place the knots and measure means and scales; NaN in X is a missing value."""
        if isinstance(self.n_bins, bool | np.bool_):
            raise TypeError("n_bins must be an instance of int, not bool.")
        check_scalar(self.n_bins, "n_bins", Integral, min_val=2)
        self.state_: PiecewiseLinear = fit_piecewise(self._checked(X, reset=True), int(self.n_bins))
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the standardized columns, then the standardized ramps of each column in turn.

        The dtype is float32 if X is of float32, else float64.
        """
        check_is_fitted(self)
        return encode(self._checked(X, reset=False), self.state_)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the names of the encoded columns, such as "age" and "age from 20 to 25".

        Parameters
        ----------
        input_features : array-like of str, default=None
            The names of the columns of X; None takes the names seen in `fit`, or x0, x1, ...
        """
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)  # checked, one per column of X
        ramps = [
            f"{name} from {start} to {end}"
            for name, knots in zip(names, map(_texts, self.knots_), strict=True)
            for start, end in pairwise(knots)
        ]
        return np.array([*names, *ramps], dtype=object)

    @property
    def knots_(self) -> list[FloatArray]:
        """The knots of each column, in its units; empty where it has no ramps."""
        check_is_fitted(self)
        return self.state_.knots

    def _checked(self, X: ArrayLike, *, reset: bool) -> Array:
        dtypes = [np.float64, np.float32]
        checked: Array = validate_data(
            self, X, dtype=dtypes, ensure_all_finite="allow-nan", reset=reset
        )
        return checked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _texts(knots: FloatArray) -> list[str]:
    """Write numbers with as few digits, from four up, as tell them apart."""
    of_digits = ([f"{knot:.{digits}g}" for knot in knots] for digits in range(4, 18))
    return next(texts for texts in of_digits if len({*texts}) == len(texts))

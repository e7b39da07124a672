"""Every check of what a user passes, in scikit-learn's words: which, the range, what was given."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import check_scalar, column_or_1d, validate_data

from probprop._types import Array, FloatArray
from probprop.inference.posterior import PerTarget

# How far from the training mean a value may lie, in standard deviations. Fourth powers of the
# inputs appear in the updates, so beyond this the arithmetic of the dtype would overflow.
LARGEST = {np.dtype(np.float64): 1e30, np.dtype(np.float32): 1e6}


def check_regression_data(
    estimator: Any, X: Any, y: Any, *, reset: bool
) -> tuple[Array, FloatArray]:
    """Return X, (n, n_features), and y, (n,) or (n, K) with K of 2 or more, as floats.

    X is finite but for entries that may be missing, by the estimator's tag.
    """
    X, y = _validated(estimator, X, y, multi_output=True, y_numeric=True, reset=reset)
    y = np.asarray(y, np.float64)  # which refuses text
    return X, column_or_1d(y, warn=True) if y.shape[1:] in [(), (1,)] else y


def n_targets(y: Array) -> int:
    """Return K for targets of shape (n, K), 1 for (n,)."""
    return 1 if y.ndim == 1 else int(y.shape[1])


def check_n_targets(y: Array, expected: int) -> None:
    """Refuse rows that have more or fewer targets than those before."""
    if n_targets(y) != expected:
        raise ValueError(
            f"y has {n_targets(y)} target(s) in each row, but the model was fitted on {expected}."
        )


def check_input_std(X_std: Any, X: Array) -> FloatArray | None:
    """Return the standard deviations of the entries of X, (n, n_features), or None."""
    if X_std is None:
        return None
    std = np.asarray(X_std, np.float64)
    try:
        std = np.broadcast_to(std, X.shape)
    except ValueError:
        raise ValueError(
            f"X_std must have the shape of X, {X.shape}, or one that broadcasts to it, such as "
            f"({X.shape[1]},). Got {std.shape} instead."
        ) from None
    known = std if np.isfinite(X).all() else np.where(np.isnan(X), 0.0, std)
    bad = known[~((known >= 0.0) & (known < np.inf))]
    if bad.size:
        raise ValueError(
            "X_std must be an array with values in the range [0.0, inf), in the units of each "
            f"feature. Got {float(bad[0])} instead."
        )
    return known


def _validated(estimator: Any, X: Any, *y: Any, reset: bool, **checks: Any) -> Any:
    """Let scikit-learn check X, and y. Where NaN may be marginalised, say so, or check the gaps."""
    gaps = get_tags(estimator).input_tags.allow_nan
    finite = "allow-nan" if gaps else True
    dtypes = [np.float64, np.float32]
    try:
        found = validate_data(
            estimator, X, *y, dtype=dtypes, ensure_all_finite=finite, reset=reset, **checks
        )
    except ValueError as error:
        if "Input X contains NaN" not in str(error) or not hasattr(estimator, "missing"):
            raise
        raise ValueError(
            "Input X contains NaN. If these entries are missing, give the estimator "
            'missing="marginalize", or fill them, for example with sklearn.impute.SimpleImputer.'
        ) from error
    if gaps and reset:
        _check_columns(found[0])
    return found


def _check_columns(X: Array) -> None:
    """Refuse to learn from a column that has no value at all."""
    if len(empty := np.flatnonzero(np.isnan(X).all(axis=0))):
        raise ValueError(
            f"X has no value at all in the column(s) {empty.tolist()}: nothing can be learned "
            "about them. Leave them out."
        )


def check_labelled_data(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Array, Array]:
    """Return X, (n, n_features), and labels: classes, (n,), or a matrix of 0 and 1.

    X is finite but for entries that may be missing, by the estimator's tag.
    """
    X, y = _validated(estimator, X, y, multi_output=True, reset=reset)
    y = y.toarray() if issparse(y) else y
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        return X, y
    return X, column_or_1d(y, warn=True)


def check_classes(labels: Array) -> Array:
    """Return the classes among the labels, (n,), sorted; there must be two or more."""
    unique_labels(labels)  # refuses what is no label
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            "y must have samples of at least 2 classes, but the data contains only one class: "
            f"{classes.tolist()[0]!r}."
        )
    return classes


def first_classes(labels: Array, classes: ArrayLike | None) -> tuple[Array, bool]:
    """Return the classes of the first call, and whether its labels are a matrix of them.

    Parameters
    ----------
    labels : ndarray of shape (n,) or (n, n_labels)
    classes : array-like, default=None
        In which the classes are found; a matrix needs none, its classes are its columns.
    """
    if labels.ndim == 2:
        return np.arange(labels.shape[1]), True
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    return check_classes(np.asarray(classes)), False


def check_same_classes(classes: ArrayLike | None, known: Array) -> None:
    """Refuse classes, where they are given, that are not those of the first call."""
    if classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(
            f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}"
        )


def check_labels(labels: Array, classes: Array, multilabel: bool) -> FloatArray:
    """Return the labels as the likelihood takes them.

    Parameters
    ----------
    labels : ndarray of shape (n,) or (n, n_labels)
    classes : ndarray of shape (n_classes,) or (n_labels,)
        Sorted.
    multilabel : bool

    Returns
    -------
    ndarray of shape (n,) or (n, n_labels)
        -1 and 1 for two classes and for a matrix of labels, otherwise the index of the class.
    """
    matrix = f"(n_samples, {len(classes)}), a matrix of labels"
    wanted = matrix if multilabel else "(n_samples,), classes"
    if labels.shape[1:] != ((len(classes),) if multilabel else ()):
        raise ValueError(
            f"y has the shape {labels.shape}, but must be {wanted} as on the first call."
        )
    if multilabel:
        return np.where(labels == 0, -1.0, 1.0)
    if len(both := unique_labels(classes, labels)) > len(classes):
        unknown = np.setdiff1d(both, classes)
        raise ValueError(
            f"The target label(s) {unknown} in y do not exist in the initial classes {classes}"
        )
    index = np.searchsorted(classes, labels).astype(np.float64)
    return 2.0 * index - 1.0 if len(classes) == 2 else index


def check_inputs(estimator: Any, X: Any) -> Array:
    """Return X, (n, n_features), with the features the estimator was fitted on.

    X is finite but for entries that may be missing, by the estimator's tag.
    """
    checked: Array = _validated(estimator, X, reset=False)
    return checked


def check_magnitude(name: str, largest: float, dtype: np.dtype[Any]) -> None:
    """Refuse standardised values that the arithmetic of the dtype could not hold."""
    if not largest <= LARGEST[dtype]:
        raise ValueError(
            f"{name} contains a value too large for dtype {dtype}: {largest:.3g} standard "
            f"deviations from the training mean, where at most {LARGEST[dtype]:.0e} can be "
            "computed with. Check the units of that row, or fit on data that include such "
            "values with standardize=True."
        )


def check_target_scale(y_scale: PerTarget) -> None:
    """Refuse targets whose variance no float could hold."""
    scales = np.atleast_1d(y_scale)
    if len(bad := scales[~((scales > 1e-152) & (scales < 1e152))]):
        raise ValueError(
            f"y has a standard deviation of {bad[0]:.3g}, whose square is outside the range of "
            "floats. Divide y by a constant first."
        )


def check_int(name: str, value: Any, lowest: int) -> None:
    """Refuse what is not an int of at least `lowest`."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an instance of int, not bool.")
    check_scalar(value, name, Integral, min_val=lowest)


def check_above(name: str, value: Any, lowest: float) -> None:
    """Refuse what is not a finite number above `lowest`."""
    check_scalar(value, name, Real, min_val=lowest, include_boundaries="neither")
    try:
        finite = math.isfinite(float(value))
    except OverflowError:  # an integer no float can hold
        finite = False
    if not finite:
        raise ValueError(f"{name} == {value}, must be finite.")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is not a bool."""
    check_scalar(value, name, (bool, np.bool_))


def check_option(name: str, value: Any, options: list[str]) -> None:
    """Refuse what is not one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {options}. Got {value!r} instead.")


def check_layer_sizes(sizes: Any) -> list[int]:
    """Return the hidden layers as a list of int; a single int is one layer."""
    if isinstance(sizes, Integral):
        sizes = [sizes]
    if isinstance(sizes, str) or not np.iterable(sizes):
        raise TypeError(
            "hidden_layer_sizes must be an int or a sequence of int, one per hidden layer. "
            f"Got {sizes!r} instead."
        )
    for size in sizes:
        check_int("each entry of hidden_layer_sizes", size, 1)
    return [int(size) for size in sizes]


def check_n_epochs(value: Any) -> None:
    """Refuse what is neither a number of epochs nor "auto"."""
    if isinstance(value, str):
        check_option("n_epochs", value, ["auto"])
    else:
        check_int("n_epochs", value, 1)


def check_memory(value: Any) -> None:
    """Refuse what is neither a number of passes, nor "auto", nor None."""
    if isinstance(value, str):
        check_option("memory", value, ["auto"])
    elif value is not None:
        check_above("memory", value, 0.0)
        check_scalar(value, "memory", Real, min_val=1)


def check_refine_every(value: Any) -> None:
    """Refuse what is neither a whole number of epochs nor a fraction of one."""
    check_above("refine_every", value, 0.0)
    if value > 1 and value != int(value):
        raise ValueError(
            "refine_every must be a whole number of epochs, or a fraction of one in the range "
            f"(0.0, 1.0). Got {value!r} instead."
        )

"""Labels as users write them: which classes there are, and the index of each label's class."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import unique_labels

from probprop._types import Array


def check_classes(labels: Array) -> Array:
    """Return the classes among the labels, (n,), sorted; there must be two or more."""
    unique_labels(labels)  # refuses values that cannot be labels
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(
            "y must have samples of at least 2 classes, but the data contains only one class: "
            f"{classes.tolist()[0]!r}."
        )
    return classes


def check_same_classes(classes: ArrayLike | None, known: Array) -> None:
    """Refuse classes, where they are given, that are not those of the first call."""
    if classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(
            f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {known!r}"
        )


def check_shape(labels: Array, columns: tuple[int, ...], wanted: str) -> None:
    """Refuse labels whose shape is not (n, *columns)."""
    if labels.shape[1:] != columns:
        raise ValueError(
            f"y has the shape {labels.shape}, but must be {wanted} as on the first call."
        )


def class_index(labels: Array, classes: Array) -> Array:
    """Return the index of the class of every label, (n,); refuse labels of no known class.

    Examples
    --------
    >>> import numpy as np
    >>> class_index(np.array(["b", "a", "b"]), np.array(["a", "b"]))
    array([1, 0, 1])
    """
    check_shape(labels, (), "(n_samples,), classes")
    if len(both := unique_labels(classes, labels)) > len(classes):
        unknown = np.setdiff1d(both, classes)
        raise ValueError(
            f"The target label(s) {unknown} in y do not exist in the initial classes {classes}"
        )
    index: Array = np.searchsorted(classes, labels)
    return index

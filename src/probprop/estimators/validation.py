"""Checks of user input, in scikit-learn's words: the parameter, its range, the value given."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from numbers import Integral, Real
from operator import is_
from typing import Any, NamedTuple, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils import check_array, check_X_y, get_tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_scalar, column_or_1d, validate_data

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Coded, Inputs, Samples, canonical, is_listed, stored
from probprop.inference.likelihoods import (
    NOISE_TAILS,
    Gaussian,
    LabelLikelihood,
    Likelihood,
    count_targets,
    of_labels,
)
from probprop.table.names import as_frame

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def check_regression_data(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Samples, Array]:
    """Return X, (n, n_features), and y, (n,) or (n, K) with K of 2 or more, as floats.

    X is finite, except for missing entries where the estimator's tag allows them, and in CSR format
    if it is sparse. Arrays of single or double precision are not copied.
    """
    if not reset and _is_plain(estimator, X) and _are_plain_targets(y, len(X)):
        return X, y
    X, y = _validated(estimator, X, y, multi_output=True, y_numeric=True, reset=reset)
    if not isinstance(y, np.ndarray) or y.dtype not in _FLOATS:
        y = np.asarray(y, np.float64)  # raises where y holds text
    return X, column_or_1d(y, warn=True) if y.shape[1:] == (1,) else y


def check_input_std(X_std: Any, X: Samples) -> FloatArray | None:
    """Return the standard deviations of the entries of X, (n, n_features), or None."""
    if X_std is None:
        return None
    if is_listed(X):
        raise ValueError("X_std needs a dense X, but X is sparse: give X.toarray().")
    std = _broadcast("X", np.asarray(X_std, np.float64), X, X.shape[1], np.shape(X_std))
    known = std if np.isfinite(X).all() else np.where(np.isnan(X), 0.0, std)
    return _checked_std("X_std", known, "each feature")


def check_target_std(y_std: Any, y: Array) -> FloatArray | None:
    """Return the known errors of the targets, of the shape of y, or None."""
    if y_std is None:
        return None
    std, n = np.asarray(y_std, np.float64), len(y)
    if std.shape in ((n,), (n, 1)):  # one per row, for all targets
        std = std.reshape(n, *[1] * (y.ndim - 1))
    return _checked_std("y_std", _broadcast("y", std, y, n, np.shape(y_std)), "the target")


def _broadcast(name: str, std: FloatArray, a: Array, example: int, given: object) -> FloatArray:
    try:
        return np.broadcast_to(std, a.shape)
    except ValueError:
        raise ValueError(
            f"{name}_std must have the shape of {name}, {a.shape}, or one that broadcasts to it, "
            f"such as ({example},). Got {given} instead."
        ) from None


def _checked_std(name: str, std: FloatArray, owner: str) -> FloatArray:
    if (bad := std[~((std >= 0.0) & (std < np.inf))]).size:
        raise ValueError(
            f"{name} must be an array with values in the range [0.0, inf), in the units of {owner}."
            f" Got {float(bad[0])} instead."
        )
    return std


def check_sample_weight(sample_weight: Any, X: Samples) -> FloatArray | None:
    """Return the weights of the rows, (n,), or None: finite, 0 or more, not all of them 0."""
    if sample_weight is None:
        return None
    n = X.shape[0]
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, sample_weight)
    weights: FloatArray = check_array(
        sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight"
    )
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be a number or have a weight for each row, the shape ({n},). Got "
            f"the shape {weights.shape} instead."
        )
    if (weights < 0.0).any():
        raise ValueError(
            "Negative values in data passed to `sample_weight`, which must be in the range "
            f"[0.0, inf). Got {float(weights.min())} instead."
        )
    if not weights.any():
        raise ValueError(
            "Sample weights must contain at least one non-zero number: rows of weight 0 are left "
            "out, and none would be left."
        )
    return weights


def _is_plain(estimator: Any, X: Any) -> TypeGuard[Array]:
    """Whether scikit-learn would accept X unchanged: its checks take longer than one row does."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in _FLOATS
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", 0)
        and not hasattr(estimator, "feature_names_in_")  # X has none, which calls for a warning
        and getattr(estimator, "encoder_", None) is None
        and _has_finite_sum(X)
    )


def _are_plain_targets(y: Any, n: int) -> TypeGuard[Array]:
    """Whether scikit-learn would accept the values y of n rows unchanged."""
    return (
        type(y) is np.ndarray
        and y.dtype in _FLOATS
        and len(y.shape) > 0
        and len(y) == n
        and (y.ndim == 1 or (y.ndim == 2 and y.shape[1] > 1))
        and _has_finite_sum(y)
    )


def _has_finite_sum(a: Array) -> bool:
    """Whether all entries are finite, unless the sum overflows: then it takes a closer look."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(a.sum())


def _validated(estimator: Any, X: Any, *y: Any, reset: bool, **checks: Any) -> Any:
    """Let scikit-learn check X, and y; encode tables, explain text and NaN in words."""
    tags = get_tags(estimator).input_tags
    if issparse(X) and (hasattr(estimator, "cv") or (tags.allow_nan and np.isnan(X.sum()))):
        X = X.toarray()
    gaps = tags.allow_nan and not issparse(X)
    checks["dtype"] = [np.float64, np.float32]
    checks["ensure_all_finite"] = "allow-nan" if gaps else True
    checks["accept_sparse"] = "csr" if tags.sparse else False
    encoded = _encoded_table(estimator, X, *y, reset=reset)
    try:
        if encoded is None:
            found = validate_data(estimator, X, *y, reset=reset, **checks)
        elif y:
            cells, y_checked = check_X_y(stored(encoded), *y, estimator=estimator, **checks)
            return _as_stored(encoded, cells), y_checked
        else:
            cells = check_array(stored(encoded), estimator=estimator, input_name="X", **checks)
            return _as_stored(encoded, cells)
    except ValueError as error:
        if "could not convert string" in str(error) and (text := _columns_of_text(X)):
            raise ValueError(
                f"{error}. X contains text in the column(s) {text}, but "
                f"{type(estimator).__name__} takes numbers only. Encode the text, for example with "
                "sklearn.preprocessing.OneHotEncoder, or give a DataFrame to PBPRegressorCV or "
                "PBPClassifierCV, which encode it."
            ) from error
        if "Input X contains NaN" not in str(error) or not hasattr(estimator, "missing"):
            raise
        raise ValueError(
            "Input X contains NaN. If these entries are missing, give the estimator "
            'missing="marginalize", or fill them, for example with sklearn.impute.SimpleImputer.'
        ) from error
    if gaps and reset:
        refuse_empty_columns(np.isnan(found[0]).all(axis=0))
    if issparse(X):
        return (canonical(found[0]), *found[1:]) if y else canonical(found)
    return found


def _as_stored(X: Any, cells: Array) -> Any:
    """Return samples such as X, stored in these cells."""
    return replace(X, codes=cells) if isinstance(X, Coded) else cells


def _encoded_table(estimator: Any, X: Any, y: Any = None, *, reset: bool) -> Any:
    """Return the columns of a table as numbers, (n, n_inputs), or as codes; None for numbers.

    With `reset`, an estimator that has `categorical_features` fits its `encoder_`.
    """
    if not hasattr(estimator, "categorical_features"):
        return None
    if isinstance(X, Coded):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    if reset:
        estimator.encoder_ = None
        plain = type(estimator.categorical_features) is str and as_frame(X) is None
    else:
        plain = estimator.encoder_ is None
    if plain:
        return None
    from probprop.table.encoding import TableEncoder, TableNote, checked_frame

    frame = checked_frame(estimator, X, reset=reset)
    if reset:
        encoder = TableEncoder(categorical_features=estimator.categorical_features)
        estimator.encoder_ = encoder.fit(frame, y)
        if encoder.notes:
            warnings.warn("; ".join(encoder.notes), TableNote, stacklevel=2)
    return estimator.encoder_.coded(frame, y if reset else None)


def _columns_of_text(X: Any) -> list[Any]:
    """Return the names, or else the indices, of the columns with a str that is not a number."""
    cells, found = np.asarray(X), []
    if cells.ndim != 2 or cells.dtype.kind not in "OUS":
        return []
    for name, column in zip(getattr(X, "columns", range(cells.shape[1])), cells.T, strict=True):
        try:
            [float(cell) for cell in column if isinstance(cell, str | bytes)]
        except ValueError:
            found.append(name)
    return found


def refuse_empty_columns(is_empty: Array) -> None:
    """Raise if a column has no value at all to learn from."""
    if is_empty.any():
        raise ValueError(
            f"X has no value at all in the column(s) {np.flatnonzero(is_empty).tolist()}: nothing "
            "can be learned about them. Leave them out."
        )


def check_labeled_data(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Samples, Array]:
    """Return X, (n, n_features), and labels: classes, (n,), or a matrix of 0 and 1."""
    X, y = _validated(estimator, X, y, multi_output=True, reset=reset)
    y = y.toarray() if issparse(y) else y
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        return X, y
    return X, column_or_1d(y, warn=True)


def check_inputs(estimator: Any, X: Any) -> Samples:
    """Return X, (n, n_features), with the features the estimator was fitted on."""
    checked: Samples = X if _is_plain(estimator, X) else _validated(estimator, X, reset=False)
    return checked


def check_int(name: str, value: Any, lowest: int) -> None:
    """Raise unless the value is an int of at least `lowest`."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an instance of int, not bool.")
    check_scalar(value, name, Integral, min_val=lowest)


def check_above(name: str, value: Any, lowest: float) -> None:
    """Raise unless the value is a finite number above `lowest`."""
    check_scalar(value, name, Real, min_val=lowest, include_boundaries="neither")
    try:
        finite = math.isfinite(float(value))
    except OverflowError:  # an integer no float can hold
        finite = False
    if not finite:
        raise ValueError(f"{name} == {value}, must be finite.")


def check_gamma(name: str, value: Any, lowest: float) -> None:
    """Raise unless the value is a shape or rate of a Gamma with moments that floats can hold."""
    check_above(name, value, lowest)
    if not max(lowest, 1e-100) <= float(value) <= 1e100:  # as a Python float: it may be a single
        raise ValueError(
            f"{name} must be in the range [{max(lowest, 1e-100):g}, 1e+100]. Got {value} instead."
        )


def check_share(name: str, value: Any) -> None:
    """Raise unless a number is between 0 and 1, both included."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a float, not {type(value).__name__}.")
    if not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be in the range [0, 1]. Got {value} instead.")


def check_option(name: str, value: Any, options: list[str]) -> None:
    """Raise unless the value is one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {options}. Got {value!r} instead.")


def check_layer_sizes(sizes: Any, name: str = "hidden_layer_sizes") -> list[int]:
    """Return the hidden layers as a list of int; a single int is one layer."""
    if isinstance(sizes, Integral):
        sizes = [sizes]
    if isinstance(sizes, str) or not np.iterable(sizes):
        raise TypeError(
            f"{name} must be an int or a sequence of int, one per hidden layer. "
            f"Got {sizes!r} instead."
        )
    for size in sizes:
        check_int(f"each entry of {name}", size, 1)
    return [int(size) for size in sizes]


def check_evidence_cap(value: Any) -> None:
    """Raise unless the value is a number of passes or None."""
    if value is not None:
        check_above("evidence_cap", value, 0.0)
        check_scalar(value, "evidence_cap", Real, min_val=1)


def check_support(value: Any) -> None:
    """Refuse a support of targets that is not "auto", None or a pair of ends."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return
    ends = list(value) if isinstance(value, list | tuple) else []
    numbers = [end for end in ends if end is not None]
    real = all(isinstance(end, Real) and not math.isnan(end) for end in numbers)
    if len(ends) != 2 or not real or (len(numbers) == 2 and not ends[0] < ends[1]):
        raise ValueError(
            "support must be 'auto', None or (low, high) with low < high, either of them None. "
            f"Got {value!r} instead."
        )


def _check_n_jobs(value: Any) -> None:
    if value is not None:
        check_scalar(value, "n_jobs", Integral)
        if value == 0:
            raise ValueError("n_jobs == 0, must be None or another int.")


_CHECKS: dict[str, Callable[[Any], object]] = {
    "hidden_layer_sizes": check_layer_sizes,
    "n_epochs": lambda value: check_int("n_epochs", value, 1),
    "evidence_cap": check_evidence_cap,
    "prior_shape": lambda value: check_gamma("prior_shape", value, 1.0),
    "prior_rate": lambda value: check_gamma("prior_rate", value, 0.0),
    "prior": lambda value: check_option("prior", value, ["shared", "per_column"]),
    "output_layer": lambda value: check_option("output_layer", value, ["mean_field", "full"]),
    "noise": lambda value: check_option("noise", value, ["constant", "input"]),
    "noise_layer_sizes": lambda value: check_layer_sizes(value, "noise_layer_sizes"),
    "noise_shape": lambda value: check_gamma("noise_shape", value, 1.0),
    "noise_rate": lambda value: check_gamma("noise_rate", value, 0.0),
    "noise_tail": lambda value: check_option("noise_tail", value, list(NOISE_TAILS)),
    "standardize": lambda value: check_scalar(value, "standardize", (bool, np.bool_)),
    "support": check_support,
    "missing": lambda value: check_option("missing", value, ["error", "marginalize"]),
    "dtype": lambda value: check_option("dtype", value, ["float64", "float32"]),
    "engine": lambda value: check_option("engine", value, list(ENGINES)),
    "verbose": lambda value: check_scalar(value, "verbose", Integral, min_val=0),
    "n_jobs": _check_n_jobs,
    "n_shards": lambda value: check_int("n_shards", 1 if value is None else value, 1),
}


_CV_CHECKS: dict[str, Callable[[Any], object]] = {
    "missing": lambda value: check_option("missing", value, ["auto", "error", "marginalize"]),
}


_CHECKED: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()
"""The parameters with which an estimator passed, unless they could change in place."""


def check_parameters(estimator: Any) -> None:
    """Refuse values that the parameters of an estimator cannot have."""
    kind: Any = type(estimator)
    names = _checked_names(kind)
    values = tuple([getattr(estimator, name) for name in names])
    before = _CHECKED.get(estimator)
    if before is not None and all(map(is_, values, before)):
        return
    _CHECKED.pop(estimator, None)
    checks = _CHECKS | _CV_CHECKS if "cv" in signature(kind).parameters else _CHECKS
    for name, value in zip(names, values, strict=True):
        if name in ("n_epochs", "evidence_cap") and isinstance(value, str) and value == "auto":
            raise ValueError(
                f"{name} must be a number. Got 'auto' instead: use PBPRegressorCV or "
                "PBPClassifierCV, which select epochs, evidence cap and more by cross-validation."
            )
        checks[name](value)
    if "prior_rate" in names:
        _check_prior(estimator)
    if "output_layer" in names:
        _check_output_layer(estimator)
    if all(isinstance(value, int | float | str | tuple | None) for value in values):
        _CHECKED[estimator] = values


def _check_prior(estimator: Any) -> None:
    """Refuse a prior without a variance, or one that single precision could not hold."""
    if getattr(estimator, "prior", "shared") == "per_column" and estimator.prior_shape <= 2.0:
        raise ValueError(
            f"prior_shape == {estimator.prior_shape:g}, must be > 2.0 with prior='per_column', "
            "whose hyperpriors have half the shape and half the rate."
        )
    variance = float(estimator.prior_rate) / (float(estimator.prior_shape) - 1.0)
    if estimator.dtype == "float32" and not 1e-30 <= variance <= 1e30:
        raise ValueError(
            "prior_rate / (prior_shape - 1), the variance of the weights' prior, must be in the "
            f"range [1e-30, 1e+30] with dtype='float32'. Got {variance:g} instead: change them, or "
            "use dtype='float64'."
        )


def _check_output_layer(estimator: Any) -> None:
    """Refuse noise that an output layer with a full covariance does not support."""
    plain = estimator.noise == "constant" and not NOISE_TAILS[estimator.noise_tail].learns_tail
    if estimator.output_layer == "full" and not plain:
        raise ValueError(
            "output_layer='full' has constant, Gaussian noise. Got "
            f"noise={estimator.noise!r} and noise_tail={estimator.noise_tail!r}."
        )


@cache
def _checked_names(kind: Any) -> list[str]:
    return [name for name in signature(kind).parameters if name in _CHECKS]


# ---- Training data, checked once: samples, targets and the likelihood of both

_BITS = 2.0**24  # of relative sample weights


class Given(NamedTuple):
    """Arguments of `fit` and `partial_fit`, unchecked; `PBPRegressor.fit` describes them."""

    X: ArrayLike
    y: ArrayLike
    sample_weight: ArrayLike | None = None
    X_std: ArrayLike | None = None
    y_std: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Samples and targets that a network can be trained on; indexing selects samples."""

    X: Inputs  # (n, n_features)
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    likelihood: Likelihood
    weights: FloatArray | None = None  # (n,), above 0, in units of `mean_weight`; None: each is 1
    y_std: FloatArray | None = None  # known errors of the targets, of the shape and units of y
    mean_weight: float = 1.0  # in the first call of `fit` or `partial_fit`

    def __getitem__(self, rows: Array) -> TrainingData:
        weights, y_std = (None if a is None else a[rows] for a in (self.weights, self.y_std))
        return replace(self, X=self.X[rows], y=self.y[rows], weights=weights, y_std=y_std)


def _read(
    model: Any,
    given: Given,
    X: Samples,
    y: Array,
    likelihood: Callable[[Array], Any],
    *,
    first: bool,
) -> TrainingData:
    """Check what belongs to the samples and drop samples of weight 0; `likelihood` takes y."""
    inputs = Inputs(X, check_input_std(given.X_std, X))
    y_std = check_target_std(given.y_std, y)
    weights = check_sample_weight(given.sample_weight, X)
    mean = 1.0 if first else model.mean_sample_weight_
    if weights is not None:
        if not weights.all():
            counts = np.flatnonzero(weights)
            if first and not is_listed(X):  # in sparse rows an empty column has zeros
                refuse_empty_columns(np.all(np.isnan(stored(X[counts])), axis=0))
            inputs, y, weights = inputs[counts], y[counts], weights[counts]
            y_std = None if y_std is None else y_std[counts]
        mean = mean_weight_of(weights) if first else mean
        weights = relative_weights(weights, mean)
    known = likelihood(y)
    return TrainingData(inputs, known.encode(y), known, weights, y_std, mean)


def mean_weight_of(weights: FloatArray) -> float:
    """Return the mean of sample weights, all above 0; no sum overflows."""
    largest = weights.max()
    return float(largest * (weights / largest).mean())


def relative_weights(weights: FloatArray, mean: float) -> FloatArray | None:
    """Return sample weights, (n,) and above 0, in units of the mean weight, or None if each is 1.

    They are rounded to 24 bits. A constant factor changes the quotients by the rounding of
    doubles, and would otherwise change the last bits of all that is learned from them.
    """
    with np.errstate(over="ignore", under="ignore"):  # refused below
        fraction, exponent = np.frexp(weights / mean)
        relative: FloatArray = np.ldexp(np.rint(fraction * _BITS) / _BITS, exponent)
    if len(bad := weights[~((relative > 0.0) & (relative < np.inf))]):
        raise ValueError(
            f"sample_weight has the value {bad[0]:.3g}, but the mean weight in the first fit was "
            f"{mean:.3g}: their quotient is outside the range of floats. Give weights in the units "
            "of the first fit."
        )
    return None if (relative == 1.0).all() else relative


def noise_factor(model: Any, sample_weight: ArrayLike | None, X: Samples) -> FloatArray | None:
    """Return the factors of the noise std for sample weights, (n,); None means 1."""
    if sample_weight is None:
        return None
    weights = check_sample_weight(sample_weight, X)
    if weights is None or not weights.all():
        raise ValueError(
            "sample_weight must be above 0 in predictions: a sample of weight 0 has infinite "
            "noise. Got 0.0."
        )
    relative = relative_weights(weights, model.mean_sample_weight_)
    return None if relative is None else 1.0 / np.sqrt(relative)


def read(
    model: Any, given: Given, *, stream: bool, classes: ArrayLike | None = None
) -> TrainingData:
    """Check the samples and targets of a network, in a `stream` like those before them."""
    known = getattr(model, "likelihood_", None) if stream else None
    if is_classifier(model):
        return read_labels(model, given, known, stream=stream, classes=classes)
    if model.output_layer == "full" and given.y_std is not None:
        raise ValueError("y_std is not available for output_layer='full': give None.")
    noise_prior = model.noise_shape, model.noise_rate
    return read_values(model, given, known, noise_prior, model.noise_tail)


def read_values(
    model: Any,
    given: Given,
    known: Gaussian | None,
    noise_prior: tuple[float, float],
    noise_tail: str = "gaussian",
) -> TrainingData:
    """Check the samples and the values of a regression.

    In the first call `known` is None: the model remembers its features, and the likelihood has this
    prior (shape and rate of the Gamma of the noise precision) and tail (a key of `NOISE_TAILS`).
    """
    first = known is None
    X, y = check_regression_data(model, given.X, given.y, reset=first)

    def likelihood(y: Array) -> Gaussian:
        return known or NOISE_TAILS[noise_tail](count_targets(y), *noise_prior)

    return _read(model, given, X, y, likelihood, first=first)


def read_labels(
    model: Any,
    given: Given,
    known: LabelLikelihood | None,
    *,
    stream: bool,
    classes: ArrayLike | None,
) -> TrainingData:
    """Check the samples and the labels of a classification.

    In the first call `known` is None: the model remembers its features, and in a `stream` it needs
    all `classes` there will be. Otherwise the classes are the distinct labels of `y`.
    """
    if given.y_std is not None:
        raise ValueError(
            "y_std is for regressors: classes have no measurement error. Leave it out."
        )
    first = known is None
    X, y = check_labeled_data(model, given.X, given.y, reset=first)

    def likelihood(y: Array) -> LabelLikelihood:
        if known is None:
            return of_labels(y, classes if stream else y)
        if classes is not None and not np.array_equal(known.classes, np.unique(classes)):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: "
                f"{known.classes!r}"
            )
        return known

    return _read(model, given, X, y, likelihood, first=first)


def read_inputs(model: Any, X: ArrayLike, X_std: ArrayLike | None) -> Inputs:
    """Check rows to predict, which have the features that the model was fitted on."""
    rows = check_inputs(model, X)
    return Inputs(rows, check_input_std(X_std, rows))

"""Calibrations as a JSON header and arrays, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from probprop._types import Array
from probprop.distributions.power import BoxCox
from probprop.encoding.piecewise import from_arrays, to_arrays
from probprop.estimators.cv.calibration import (
    Calibration,
    ClassCalibration,
    Levels,
    NoiseNetwork,
    Range,
    Squares,
)
from probprop.files.fields import Parts, field, joined, parted
from probprop.inference.noise import LARGEST_LOG, LARGEST_VARIANCE, noise_network
from probprop.inference.standardize import Standardizer

_LARGEST_SQUARE = 1e100  # of errors, in units of the variances that were predicted
_RANGE = ("low", "high", "scale")
_WEIGHTS = ("m_w", "v_w")  # the rest of a noise network never changes
_OF_CLASSES = [field.name for field in fields(ClassCalibration)]
_STANDARDIZER = ("x_mean", "x_scale", "missing_variance")


class Sizes(NamedTuple):
    """What a calibration has to fit: the sizes of its model."""

    n_features: int
    n_members: int
    n_partitions: int


def describe_calibration(calibration: Calibration) -> Parts:
    """Return the header and the arrays of a calibration."""
    header: dict[str, Any] = {
        "squares": asdict(calibration.squares),
        "slope": float(calibration.range.slope),
        "gain": _number_or_none(calibration.gain),
        "gain_error": _number_or_none(calibration.gain_error),
        "transformation": None if (g := calibration.transformation) is None else asdict(g),
    }
    arrays = joined({"range": {k: getattr(calibration.range, k) for k in _RANGE}})
    if (network := calibration.noise) is None:
        return header, arrays
    posterior, standardizer = network.posterior, network.standardizer
    own = {k: getattr(standardizer, k) for k in _STANDARDIZER}
    own |= {f"{k}_{i}": a for k in _WEIGHTS for i, a in enumerate(getattr(posterior, k))}
    header["noise_layer_sizes"] = list(posterior.layer_sizes)
    header["noise_dtype"] = posterior.dtype.name
    header["noise_levels"] = network.levels._asdict()
    return header, arrays | joined({"noise": own, "noise_encoding": to_arrays(network.encoding)})


def rebuild_calibration(
    header: dict[str, Any], arrays: dict[str, Array], sizes: Sizes
) -> Calibration:
    """Undo `describe_calibration`, of a model of these sizes."""
    squares, n_features = _rebuild_squares(field(header, "squares", dict)), sizes.n_features
    if (squares.n_pooled, squares.n_members) != (sizes.n_partitions, sizes.n_members):
        raise ValueError("the squares of calibration_ are those of other members")
    if not 0.0 <= (slope := field(header, "slope", float)) < math.inf:
        raise ValueError("the slope of calibration_ is none that a model has")
    gain, gain_error = (_number_or_nan(header, k) for k in ("gain", "gain_error"))
    own = parted(arrays, ["range", "noise", "noise_encoding"])
    box = _rebuild_range(own["range"], slope, n_features)
    noise = None
    if "noise_layer_sizes" in header:
        noise = _rebuild_noise(header, own["noise"], own["noise_encoding"], n_features)
    elif own["noise"] or own["noise_encoding"]:
        raise ValueError("the noise network of calibration_ is not described")
    return Calibration(squares, box, noise, gain, gain_error, _rebuild_transformation(header))


def _rebuild_transformation(header: dict[str, Any]) -> BoxCox | None:
    if header.get("transformation", {}) is None:
        return None
    described = field(header, "transformation", dict)
    if described.keys() != {"power", "unit"}:
        raise ValueError("the transformation of calibration_ is not described")
    return BoxCox(*(_read_number(described, k) for k in ("power", "unit")))


def _rebuild_squares(header: dict[str, Any]) -> Squares:
    error, between, n_rows = (_read_number(header, k) for k in ("error", "between", "n_rows"))
    n_pooled, n_members = (field(header, k, int) for k in ("n_pooled", "n_members"))
    if not (0.0 <= error < _LARGEST_SQUARE and 0.0 <= between < _LARGEST_SQUARE and n_rows > 0.0):
        raise ValueError("the squares of calibration_ are none that a model has")
    return Squares(error, between, n_rows, n_pooled, n_members)


def _rebuild_range(arrays: dict[str, Array], slope: float, n_features: int) -> Range:
    check_arrays(arrays, {k: ("float64", (n_features,)) for k in _RANGE}, unbounded=_RANGE)
    box = Range(arrays["low"], arrays["high"], arrays["scale"], slope)
    ordered = np.isfinite(box.low) & np.isfinite(box.high) & (box.low <= box.high)
    # A feature without any value has no ends.
    empty = np.isnan(box.low) & np.isnan(box.high) & np.isinf(box.scale)
    if not (ordered | empty).all() or not (box.scale > 0.0).all():
        raise ValueError("the range of calibration_ is none that a model has")
    return box


def _rebuild_noise(
    header: dict[str, Any], arrays: dict[str, Array], encoding: dict[str, Array], n_features: int
) -> NoiseNetwork:
    state = from_arrays(encoding)
    sizes, dtype = field(header, "noise_layer_sizes", list), field(header, "noise_dtype", str)
    if not 2 <= len(sizes) <= len(arrays) or any(type(n) is not int for n in sizes):
        raise ValueError("the layers of the noise network are not described")
    if [sizes[0], sizes[-1], len(state.mean)] != [state.n_outputs, 1, n_features]:
        raise ValueError("the layers of the noise network do not fit its encoding")
    if dtype not in ("float64", "float32"):
        raise ValueError("the dtype of the noise network is none that a model has")
    expected: dict[str, Any] = {k: ("float64", (sizes[0],)) for k in _STANDARDIZER}
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        expected |= {f"{k}_{i}": (dtype, (n_out, n_in + 1)) for k in _WEIGHTS}
    check_arrays(arrays, expected, unbounded=("x_scale",))
    m_w, v_w = (tuple(arrays[f"{k}_{i}"] for i in range(len(sizes) - 1)) for k in _WEIGHTS)
    positive = (*v_w, arrays["x_scale"])
    known = {*arrays["missing_variance"].tolist()} <= {0.0, 1.0}
    # An input that is constant, or has no value in the out-of-fold rows, has no scale.
    scaled = np.isfinite(arrays["x_scale"]) | (arrays["missing_variance"] == 0.0)
    if not known or not scaled.all() or not all((a > 0.0).all() for a in positive):
        raise ValueError("the noise network has values that no fitted model has")
    # Its targets, which are residuals, are not standardised.
    standardizer = Standardizer(
        arrays["x_mean"], arrays["x_scale"], np.zeros(1), np.ones(1), arrays["missing_variance"]
    )
    levels = Levels(*(_read_number(field(header, "noise_levels", dict), k) for k in Levels._fields))
    within = -LARGEST_LOG <= levels.low <= levels.high <= LARGEST_LOG
    if not (within and 0.0 <= levels.variance <= LARGEST_VARIANCE):
        raise ValueError(f"noise_levels of calibration_ are invalid: got {tuple(levels)}")
    return NoiseNetwork(state, noise_network(m_w, v_w), standardizer, levels)


# ---- Of classes


def describe_class_calibration(calibration: ClassCalibration) -> Parts:
    """Return the header of a calibration of probabilities; it has no arrays."""
    return {k: float(getattr(calibration, k)) for k in _OF_CLASSES}, {}


def rebuild_class_calibration(
    header: dict[str, Any], arrays: dict[str, Array], sizes: Sizes
) -> ClassCalibration:
    """Undo `describe_class_calibration`; the sizes do not matter."""
    if arrays:
        raise ValueError("a calibration of probabilities has no arrays")
    numbers = {k: _read_number(header, k) for k in _OF_CLASSES}
    if not min(numbers[k] for k in ("temperature", "precision", "n_rows")) > 0.0:
        raise ValueError("calibration_ has a number that no model has")
    return ClassCalibration(**numbers)


# ---- Checks


def check_arrays(
    arrays: dict[str, Array], expected: dict[str, Any], unbounded: Sequence[str] = ()
) -> None:
    """Refuse arrays of other names, dtypes or shapes, and non-finite values in bounded ones."""
    if {k: (a.dtype.name, a.shape) for k, a in arrays.items()} != expected:
        raise ValueError("the shapes or dtypes of the arrays do not fit together")
    for k, a in arrays.items():
        if a.size == 0 or not (k in unbounded or np.isfinite(a).all()):
            raise ValueError(f"{k} has values that no fitted model has")


def _number_or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _number_or_nan(header: dict[str, Any], key: str) -> float:
    """Return a number; NaN stands for one that was not measured, null in the file."""
    return math.nan if header.get(key, 0.0) is None else _read_number(header, key)


def _read_number(header: dict[str, Any], key: str) -> float:
    value: float = field(header, key, float)
    if not math.isfinite(value):
        raise ValueError(f"{key} of calibration_ is {value}")
    return value

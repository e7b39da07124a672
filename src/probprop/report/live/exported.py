"""A fitted model of a table as text that a page may hold: all that a prediction needs."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.distributions.classes import normal_draws
from probprop.estimators.cv.calibration import Calibration
from probprop.estimators.cv.class_calibration import ClassCalibration
from probprop.estimators.cv.joint import N_NODES, Joint, nodes_of
from probprop.estimators.kind import classes_of, first_network, is_cross_validated, members
from probprop.inference.posterior import Posterior, flat
from probprop.inference.standardize import LARGEST, Standardizer
from probprop.table.model import TableModel, takes_gaps

Tree = dict[str, Any]

_KINDS = {"f8": np.float64, "f4": np.float32, "i4": np.int32}


def exported(model: TableModel) -> Tree:
    """Return what `probprop/web/whatif/model.js` predicts from, as `packed` takes it."""
    estimator: Any = model.estimator
    classes = classes_of(estimator)
    networks = members(estimator) or [estimator]
    x_mean, x_scale = moments_of_columns(model)
    several = classes is not None and len(classes) > 2
    return {
        "targets": model.targets,
        "classes": None if classes is None else [str(name) for name in classes.tolist()],
        "takes_gaps": takes_gaps(estimator),
        "n_features": len(model.encoded_names),
        "x_mean": x_mean,
        "x_scale": x_scale,
        "largest": LARGEST[first_network(estimator).posterior_.dtype],
        "bounds": getattr(estimator, "bounds_", None),
        "encoding": getattr(estimator, "encoding_", None),
        "members": [_network(network) for network in networks],
        "calibration": _calibration(estimator.calibration_)
        if is_cross_validated(estimator)
        else None,
        "joint": _joint(getattr(estimator, "joint_", None)),
        "draws": normal_draws(len(cast(Array, classes))) if several else None,
    }


def n_numbers(model: TableModel) -> int:
    """Count the weights of all networks, twice: their means and their variances."""
    estimator: Any = model.estimator
    return sum(2 * m.size for n in members(estimator) or [estimator] for m in n.posterior_.m_w)


def moments_of_columns(model: TableModel) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of every encoded column, as the model learned them."""
    estimator: Any = model.estimator
    if (encoding := getattr(estimator, "encoding_", None)) is not None:
        return encoding.mean, encoding.scale
    standardizer: Standardizer = first_network(estimator).standardizer_
    return standardizer.x_mean, standardizer.x_scale


def _joint(joint: Joint | None) -> Tree | None:
    """Return what completes missing values; of the covariance the lower triangle, row by row."""
    if joint is None:
        return None
    S = joint.covariance
    return {
        "column": joint.column,
        "value": joint.value,
        "score": joint.score,
        "discrete": joint.discrete,
        "encoding": joint.encoding,
        "covariance": None if S is None else S[np.tril_indices(len(S))],
        "spread": joint.spread,
        "factor": joint.factor,
        "nodes": nodes_of(len(joint.discrete)),
        "n_nodes": N_NODES,
    }


def _network(network: Any) -> Tree:
    posterior: Posterior = network.posterior_
    standardizer: Standardizer = network.standardizer_
    tree = _layers(posterior, standardizer)
    if is_classifier(network):
        return tree
    noise = posterior.noise_network
    return tree | {
        "y_mean": standardizer.y_mean,
        "y_scale": standardizer.y_scale,
        "noise_variance": posterior.noise_variance,
        "noise_network": None if noise is None else _layers(noise, standardizer),
    }


def _layers(posterior: Posterior, standardizer: Standardizer) -> Tree:
    known = standardizer.missing_variance
    return {
        "sizes": list(posterior.layer_sizes),
        "m_w": flat(posterior.m_w),
        "v_w": flat(posterior.v_w),
        "x_mean": standardizer.x_mean,
        "x_scale": standardizer.x_scale,
        "missing_variance": np.ones_like(standardizer.x_mean) if known is None else known,
        "tail": posterior.tail,
    }


def _calibration(calibration: Calibration | ClassCalibration) -> Tree:
    if isinstance(calibration, ClassCalibration):
        return {"temperature": calibration.temperature}
    noise = calibration.noise
    return {
        "factor": calibration.factor,
        "range": calibration.range,
        "noise": None
        if noise is None
        else {
            **_layers(noise.posterior, noise.standardizer),
            "encoding": noise.encoding,
            "levels": noise.levels,
        },
        "transformation": calibration.transformation,
    }


# ---- As text


def packed(tree: Any) -> tuple[str, str]:
    r"""Return a tree of records, lists, texts and numbers as JSON, and its arrays as base64.

    In the JSON an array is ``{"array": [kind, start, length]}``, which says where its bytes begin
    in the block. There the first bytes of all its numbers come first, then the second ones: so
    they compress better.

    Parameters
    ----------
    tree : dict, dataclass, named tuple, list, str, float, int, bool, None or ndarray
        Arrays are flattened. Other numbers that are not finite become null.

    Returns
    -------
    text, block : str
        In neither is a ``<``: both may stand in a script element.

    Examples
    --------
    >>> text, block = packed({"name": "</script>", "weights": np.zeros((2, 3)), "gain": np.nan})
    >>> print(text)
    {"name":"\u003c/script>","weights":{"array":["f8",0,6]},"gain":null}
    >>> np.frombuffer(gzip.decompress(base64.b64decode(block))).shape
    (6,)
    """
    blocks: list[bytes] = []
    size = 0

    def plain(node: Any) -> Any:
        nonlocal size
        if isinstance(node, np.ndarray):
            kind = _kind(node)
            values = np.ascontiguousarray(node, _KINDS[kind]).ravel()
            start, data = size, _by_place(values)
            blocks.append(data)
            size += len(data)
            return {"array": [kind, start, values.size]}
        if is_dataclass(node):
            node = {field.name: getattr(node, field.name) for field in fields(node)}
        elif hasattr(node, "_asdict"):
            node = node._asdict()
        if isinstance(node, Mapping):
            return {str(key): plain(value) for key, value in node.items()}
        if isinstance(node, Sequence) and not isinstance(node, str):
            return [plain(value) for value in node]
        if isinstance(node, np.generic):
            node = node.item()
        return None if isinstance(node, float) and not np.isfinite(node) else node

    text = json.dumps(plain(tree), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c"), compressed(b"".join(blocks))


def compressed(data: bytes) -> str:
    """Return bytes as base64 of their gzip stream, which a browser can inflate."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _kind(array: Array) -> str:
    if array.dtype.kind in "iub":
        return "i4"
    return "f4" if array.dtype == np.float32 else "f8"


def _by_place(values: Array) -> bytes:
    """Return the bytes of an array, all first bytes first."""
    data: bytes = values.view(np.uint8).reshape(-1, values.itemsize).T.tobytes()
    return data

"""A fitted model of a table as a tree of names and arrays: all that a prediction needs."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.distributions.classes import normal_draws
from probprop.encoding import bounds
from probprop.encoding.piecewise import PiecewiseLinear, to_arrays
from probprop.estimators.cv.calibration import Calibration, ClassCalibration
from probprop.estimators.cv.missing import N_NODES, Joint, nodes_of
from probprop.estimators.kind import classes_of, first_network, is_cross_validated, members
from probprop.inference.posterior import Posterior, flat
from probprop.inference.standardize import LARGEST, Standardizer
from probprop.table.model import TableModel, takes_gaps

Tree = dict[str, Any]


def exported(model: TableModel) -> Tree:
    """Return what `probprop/web/whatif/model.js` predicts from, as `packed` takes it.

    Parameters
    ----------
    model : TableModel
        Of any estimator.
    """
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
        "bounds": bounds.to_arrays(estimator.bounds_) if is_cross_validated(estimator) else None,
        "encoding": _encoding(getattr(estimator, "encoding_", None)),
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


def _encoding(state: PiecewiseLinear | None) -> Tree | None:
    return None if state is None else dict(to_arrays(state))


def _joint(joint: Joint | None) -> Tree | None:
    """Return what completes missing values; of the covariance the lower triangle, row by row."""
    if joint is None:
        return None
    S = joint.covariance
    return {
        "column": joint.column,
        "value": joint.value,
        "score": joint.score,
        "discrete": joint.discrete.astype(np.int32),
        "encoding": _encoding(joint.encoding),
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
    box, noise, g = calibration.range, calibration.noise, calibration.transformation
    return {
        "factor": calibration.factor,
        "range": {"low": box.low, "high": box.high, "scale": box.scale, "slope": box.slope},
        "noise": None
        if noise is None
        else {
            **_layers(noise.posterior, noise.standardizer),
            "encoding": _encoding(noise.encoding),
            "levels": noise.levels._asdict(),
        },
        "transformation": None if g is None else {"power": g.power, "unit": g.unit},
    }

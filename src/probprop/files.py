"""Save and load fitted models: the fields of each class in a file, and their valid values.

`probprop.io` writes and checks the fields that are declared here, or annotated in their class.
Derived fields are not in the file: they are computed when the object is made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from copy import copy
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state

from probprop import io
from probprop._types import Array
from probprop.distributions import recalibrated
from probprop.encoding.bounds import InputBounds
from probprop.encoding.missing import LARGEST_FACTOR, Joint
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.base import publish
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv import calibration, policy
from probprop.estimators.cv.base import Group, policy_of
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.cv.search import Trial
from probprop.estimators.kind import column_moments
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_int, check_parameters
from probprop.facts import model_facts
from probprop.inference import checkpoint, likelihoods, noise
from probprop.inference.inputs import MEAN
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.standardize import Standardizer
from probprop.inference.training import Fitted
from probprop.io import MODEL, Declared, above, anything, typed, within

_Path = str | os.PathLike[str]
Network = PBPRegressor | PBPClassifier
Estimator = Network | PBPRegressorCV | PBPClassifierCV


def save(model: Any, path: _Path) -> None:
    """Write a fitted model to one file.

    Parameters come back as plain numbers, strings, lists and tuples; a RandomState comes back
    as None, since all that `partial_fit` and `predict` need is in the posterior.
    """
    try:
        hint, declared = _known(type(model).__name__, getattr(model, "encoder_", None))
        tree, arrays = io.encode(hint, model, declared)
        _decoded(tree, arrays)  # a model that could not be loaded is not saved
        io.write_file(path, MODEL, tree | {"facts": facts_of(model)}, arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The model cannot be saved: {error}") from error


def load(path: _Path) -> Any:
    """Load a model written by its `save` method; predictions and updates are bit-identical.

    A file that is not a model, is damaged, or was written by a newer probprop raises
    `ModelFileError`. Loading runs no code from the file.
    """
    with io.reading_model(path):
        tree, arrays, _ = io.read_file(path, MODEL)
        tree.pop("facts", None)  # they are for ``probprop info``, which does not load the model
        return _decoded(tree, arrays)


def facts_of(model: Any) -> list[list[str]]:
    """Describe a model in words, without its features and version, which are in the header."""
    plain = isinstance(model, BaseEstimator)
    estimator, target = (model, "the target") if plain else (model.estimator, model.target)
    facts = model_facts(estimator, [], target)
    encoder = model.encoder if not plain else getattr(model, "encoder_", None)
    if encoder is not None and encoder.notes:
        facts.append(["Notes", "; ".join(encoder.notes)])
    return [fact for fact in facts if fact[0] not in ("Feature", "Features", "Version")]


def _known(name: Any, encoder: Any) -> tuple[Any, dict[Any, Declared]]:
    """Return the type of models, and what is declared; tables only if needed: they need pandas."""
    if name != "TableModel" and encoder is None:
        return Estimator, _DECLARED
    from probprop.table import TableEncoder, TableModel
    from probprop.table.encoding import table_encoder

    declared = {
        TableEncoder: Declared(
            take=lambda encoder: {"encoders": list(encoder.encoders_)}, make=table_encoder
        ),
        TableModel: Declared(check=_check_table, ranges={"baseline": np.isfinite}),
    }
    for kind in (PBPRegressorCV, PBPClassifierCV):
        usual = _DECLARED[kind]
        declared[kind] = usual._replace(types={**usual.types, "encoder_": TableEncoder | None})
    return Estimator | TableModel, _DECLARED | declared


def _decoded(tree: Any, arrays: dict[str, Array]) -> Any:
    hint, declared = _known(tree.get("class"), tree.get("encoder_"))
    model = io.decode(hint, tree, arrays, declared)
    _check_answers(model if isinstance(model, BaseEstimator) else model.estimator)
    return model


# ---- Parameters


def _splitter(name: Any) -> Any:
    """Return the splitter of scikit-learn of this name; None if it has none."""
    kind = getattr(import_module("sklearn.model_selection"), str(name), None)  # slow to import
    return kind if isinstance(kind, type) and hasattr(kind, "split") else None


def _plain(value: Any) -> Any:
    """Return a parameter as JSON; objects are mappings, and a RandomState is null."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, policy.Candidate):
        return {"candidate": io.encode(policy.Candidate, value, _DECLARED)[0]}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if type(value) is _splitter(type(value).__name__):
        state = vars(value) | vars(value).get("cvargs", {})  # a repeated splitter has some there
        own = {k: _plain(state[k]) for k in signature(type(value)).parameters}
        return {"splitter": type(value).__name__, "parameters": own}
    return None if isinstance(value, np.random.RandomState) else value


def _parameter(node: Any) -> Any:
    """Undo `_plain`."""
    if isinstance(node, list):
        return [_parameter(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.keys() == {"tuple"}:
        return tuple(typed(node["tuple"], list, "tuple"))
    if node.keys() == {"candidate"}:
        return io.decode(policy.Candidate, node["candidate"], {}, _DECLARED)
    own = typed(node.get("parameters"), dict, "parameters")
    if node.keys() == {"splitter", "parameters"} and (kind := _splitter(node["splitter"])):
        return kind(**own)
    raise ValueError("a parameter is not one that a model has")


def _unfitted(kind: Any, parameters: Any) -> Any:
    """Return an estimator with parameters of a file, which are checked; others get defaults."""
    found = typed(parameters, dict, "parameters")
    model = kind(**{k: _parameter(value) for k, value in found.items()})
    check_parameters(model)
    if hasattr(model, "candidates"):
        policy.read_budget(model.budget)
        policy.read_candidates(model.candidates, model.budget, policy_of(model, 0))
        if isinstance(model.cv, int):
            check_int("cv", model.cv, 2)
        elif model.cv != "auto" and type(model.cv) is not _splitter(type(model.cv).__name__):
            raise ValueError(
                'cv must be "auto", an int or a splitter of scikit-learn. Got '
                f"{type(model.cv).__name__} instead; to save the model, call set_params(cv=5) "
                "first, which matters to the next fit only"
            )
    check_random_state(model.random_state)
    return model


# ---- Networks

_LABELS = {np.dtype(code).name for code in np.typecodes["AllInteger"] + "efd?"} | {"str", "object"}
_COUNT = within(1, io.LARGEST_COUNT)


def _taken(make: Any, model: Any) -> dict[str, Any]:
    """Return the parameters and the fitted attributes of an estimator that `make` takes."""
    names, parameters = getattr(model, "feature_names_in_", None), model.get_params(deep=False)
    if not isinstance(given := parameters.get("candidates", ""), str):
        parameters["candidates"] = policy.read_candidates(given, "good", policy_of(model, 0))
    found: dict[str, Any] = {
        "parameters": {k: _plain(value) for k, value in parameters.items()},
        "feature_names_in_": None if names is None else [str(name) for name in names],
    }
    found |= {k: getattr(model, k) for k in signature(make).parameters if k not in found}
    if not found.get("further_calibrations_", True):
        del found["further_calibrations_"]  # of one target
    return found


def _give_names(model: Any, n_features: int, names: list[str] | None) -> None:
    """Give a model its number of features, and their names."""
    model.n_features_in_ = n_features
    if names is not None:
        if len(names) != n_features:
            raise ValueError("feature_names_in_ does not have one name per feature")
        model.feature_names_in_ = np.array(names, object)


def _network(
    kind: type[Network],
    parameters: Any,
    likelihood_: Any,
    posterior_: Posterior,
    standardizer_: Standardizer,
    history_: list[Epoch],
    log_evidence_: float,
    n_samples_seen_: int,
    mean_sample_weight_: float,
    feature_names_in_: list[str] | None,
) -> Any:
    """Return the fitted network with these attributes."""
    model = _unfitted(kind, parameters)
    n_noise = likelihood_.n_outputs if likelihood_.learns_noise else 1
    n_targets = {np.size(epoch.noise_variance) for epoch in history_}
    n_targets |= {len(posterior_.alpha_noise), len(standardizer_.y_mean)}
    if posterior_.layer_sizes[-1] != likelihood_.n_outputs or n_targets != {n_noise}:
        raise ValueError(f"its parts do not form one {likelihood_.task} network")
    tails = [posterior_.tail, getattr(posterior_.noise_network, "tail", np.zeros(1))]
    if not likelihood_.learns_tail and any(tail.any() for tail in tails):
        raise ValueError("tail is invalid for Gaussian noise")
    if not history_ or [e.n_iter for e in history_] != [*range(1, len(history_) + 1)]:
        raise ValueError("history_ does not have every epoch")
    model.likelihood_ = likelihood_
    fitted = Fitted(posterior_, standardizer_, history_[-1], log_evidence_, n_samples_seen_)
    publish(model, fitted, history_, mean_sample_weight_)
    _give_names(model, len(standardizer_.x_mean), feature_names_in_)
    return model


class _Labels:
    """Class labels in a file: an array of any type that labels have."""


def _taken_labels(classes: Array) -> dict[str, Any]:
    name = "str" if classes.dtype.kind == "U" else classes.dtype.name
    return {"dtype": name, "values": classes.tolist()}


def _labels(dtype: str, values: list[Any]) -> Array:
    """Return the class labels: two or more of one type, sorted."""
    if dtype not in _LABELS or not all(isinstance(value, str | int | float) for value in values):
        raise ValueError(f"classes of the dtype {dtype[:30]} are not supported")
    with np.errstate(over="ignore"):
        classes = np.array(values, dtype)
    if len(values) < 2 or any(not one < other for one, other in pairwise(values)):
        raise ValueError("classes are not two or more, sorted and all different")
    if classes.tolist() != values:
        raise ValueError(f"classes are not all of the dtype {dtype}")
    return classes


# ---- Cross-validated estimators


def _cross_validated(
    kind: Any,
    parameters: Any,
    estimators_: list[Any],
    groups_: list[Group],
    trials_: list[Trial],
    calibration_: Any,
    bounds_: InputBounds,
    joint_: Joint | None,
    n_samples_seen_: int,
    feature_names_in_: list[str] | None,
    encoder_: Any = None,
    further_calibrations_: tuple[calibration.Calibration, ...] = (),
) -> Any:
    """Return the fitted cross-validated estimator with these attributes."""
    model = _unfitted(kind, parameters)
    if not groups_ or not estimators_ or len(estimators_) % len(groups_):
        raise ValueError("groups_ differ in their number of members")
    if abs(sum(group.weight for group in groups_) - 1.0) > 1e-6:
        raise ValueError("the weights of groups_ do not sum to 1")
    model.estimators_, model.groups_, model.trials_ = estimators_, groups_, trials_
    model.bounds_, model.calibration_, model.joint_ = bounds_, calibration_, joint_
    model.n_samples_seen_, model.likelihood_ = n_samples_seen_, estimators_[0].likelihood_
    model.encoder_, model.further_calibrations_ = encoder_, further_calibrations_
    n_targets = getattr(model, "n_outputs_", 1)  # a classifier has one target
    if len(further_calibrations_) != n_targets - 1:
        raise ValueError("there is not one calibration for each target")
    if (joint_ is None) != (model.missing == "error"):
        raise ValueError("the joint distribution of the features does not fit `missing`")
    n_columns = len(bounds_.low)
    if encoder_ is not None:
        if len(encoder_.names) != n_columns:
            raise ValueError("the columns are not those that the estimator was fitted on")
        n_columns = encoder_.n_features_in_
    _give_names(model, n_columns, feature_names_in_)
    return model


def _check_encoding(state: PiecewiseLinear) -> None:
    column, n = state.column, len(state.center)
    if column.dtype.kind != "i" or not ((column >= 0) & (column < n)).all():
        raise ValueError("the encoding has ramps of columns that do not exist")
    if (np.diff(column) < 0).any() or not (state.start < state.end).all():
        raise ValueError("the encoding has ramps out of order or without rise")
    first = state.one_hot
    if first is not None and any(
        first[own[0]] != own[0] or own[-1] - own[0] != len(own) - 1 for own in state.sets
    ):
        raise ValueError("the one-hot sets of the encoding are not columns side by side")


def _check_joint(joint: Joint) -> None:
    n, S = len(joint.encoding.center), joint.covariance
    if (
        not np.array_equal(np.unique(joint.column), np.arange(n))
        or (np.diff(joint.column) < 0).any()
    ):
        raise ValueError("joint_/column does not have every feature in order")
    if (len(joint.discrete), len(joint.factor)) != (n, n + 1):
        raise ValueError("joint_/discrete and joint_/factor do not have a number per feature")
    if S is not None and S.shape != (joint.encoding.n_outputs,) * 2:
        raise ValueError("joint_/covariance does not have a row and a column per input")


# ---- Models of tables


class _Scores(NamedTuple):
    """What a fit reports."""

    measured_on: Literal["out-of-fold", "held-out"]
    n_samples: int
    targets: dict[str, dict[str, float | None]]
    positive_class: str | None = None  # of two classes: the rarer one


def _check_table(model: Any) -> None:
    """Refuse columns that are not those of the estimator, and scores that no fit reports."""
    estimator, targets = model.estimator, model.targets
    n_targets = getattr(estimator, "n_outputs_", 1)  # a classifier has one target
    if len(targets) != n_targets or isinstance(model.target, str) != (n_targets == 1):
        raise ValueError("target does not have a column for each output")
    names = [*model.features, *targets, *model.counting.names]
    if len({*names}) < len(names):
        raise ValueError("a column of the table has two roles")
    if len(model.encoder.names) != estimator.n_features_in_:
        raise ValueError("the columns are not those that the estimator was fitted on")
    if model.baseline and len(model.baseline) != n_targets:
        raise ValueError("baseline must have a mean and a standard deviation for each target")
    if model.scores is not None:
        scores = io.decode(_Scores, model.scores, {}, {})
        if [*scores.targets] != targets:
            raise ValueError("scores/targets does not have the scores of each target")


# ---- A trial prediction, because valid fields may not make a valid model


def _check_answers(model: Any) -> None:
    """Refuse an estimator whose prediction at the mean of the features is not finite."""
    nameless = model.on_inputs() if hasattr(model, "on_inputs") else copy(model)
    vars(nameless).pop("feature_names_in_", None)  # without which the sample would be warned of
    with np.errstate(all="ignore"):
        try:
            predicted = nameless.predict_distribution(column_moments(model)[0][np.newaxis])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"no prediction follows from its parts: {error}") from error
        if is_classifier(model):
            answers = [np.exp(predicted.log_proba)]
        else:
            answers = [predicted.mean, 1.0 / predicted.std]
    if not all(np.isfinite(answer).all() for answer in answers):
        raise ValueError("it has numbers that no prediction follows from")


# ---- Declarations

_POSITIVE, _NOT_NEGATIVE = above(0.0), within(0.0, float(np.finfo(np.float64).max))
_SHARE = within(0.0, 1.0)
_FACTOR = within(1.0, LARGEST_FACTOR)
_NOISE_PRIOR = {"noise_shape": above(1.0), "noise_rate": _POSITIVE}
_SCALE = within(float(np.finfo(np.float64).smallest_subnormal), math.inf)
_LOG = within(-noise.LARGEST_LOG, noise.LARGEST_LOG)


def _estimator(make: Any, **types: Any) -> Declared:
    counts = {"n_samples_seen_": _COUNT, "mean_sample_weight_": _POSITIVE}
    return Declared(counts, types=types, take=partial(_taken, make), make=make)


def _selected(kind: Any, member: Any, calibrated_by: Any) -> Declared:
    types = {"estimators_": list[member], "calibration_": calibrated_by, "encoder_": Literal[None]}
    return _estimator(partial(_cross_validated, kind), **types)


def _check_recalibration(shape: recalibrated.Recalibration) -> None:
    if shape.scale.shape != (2,) or not shape.low < shape.high:
        raise ValueError("a recalibration has two scales, and a support with low < high")
    for index, n in ((shape.cell, len(shape.cells)), (shape.bin, len(recalibrated.SCORES) + 1)):
        if index.dtype != np.int64 or not ((index >= 0) & (index < n)).all():
            raise ValueError("a recalibration has samples outside of its cells or bins")


_DECLARED: dict[Any, Declared] = {
    **checkpoint.DECLARED,
    PBPRegressor: _estimator(
        partial(_network, PBPRegressor), likelihood_=likelihoods.Gaussian | likelihoods.Heavy
    ),
    PBPClassifier: _estimator(
        partial(_network, PBPClassifier), likelihood_=likelihoods.LabelLikelihood
    ),
    PBPRegressorCV: _selected(PBPRegressorCV, PBPRegressor, calibration.Calibration),
    PBPClassifierCV: _selected(PBPClassifierCV, PBPClassifier, calibration.ClassCalibration),
    likelihoods.Gaussian: Declared(_NOISE_PRIOR),
    likelihoods.Heavy: Declared(_NOISE_PRIOR),
    likelihoods.Probit: Declared(types={"classes": _Labels}),
    likelihoods.Multinomial: Declared(types={"classes": _Labels}),
    _Labels: Declared(take=_taken_labels, make=_labels),
    Standardizer: Declared(
        {"x_scale": _SCALE, "y_scale": _POSITIVE, "missing_variance": lambda x: np.isin(x, (0, 1))},
        {"x_mean": "n", "x_scale": "n", "missing_variance": "n", "y_mean": "k", "y_scale": "k"},
    ),
    PiecewiseLinear: Declared(
        {"scale": _SCALE, "ramp_scale": _POSITIVE, "one_hot": lambda first: first >= MEAN},
        {"mean": "n", "scale": "n", "center": "n", "one_hot": "n", "coded": "n"}
        | dict.fromkeys(("column", "start", "end", "ramp_center", "ramp_scale"), "m"),
        check=_check_encoding,
    ),
    InputBounds: Declared(
        {"low": anything, "high": anything, "growth": _NOT_NEGATIVE},
        {"low": "n", "high": "n", "growth": "n"},
    ),
    calibration.Range: Declared(
        {"low": anything, "high": anything, "scale": _SCALE, "slope": _NOT_NEGATIVE},
        {"low": "n", "high": "n", "scale": "n"},
    ),
    Joint: Declared(
        {"spread": _FACTOR, "factor": _FACTOR},
        {"column": "q", "value": "q", "score": "q", "discrete": "n", "factor": "m"},
        check=_check_joint,
    ),
    policy.Candidate: Declared(types={"hidden_layer_sizes": tuple[int, ...]}),
    Group: Declared({"n_epochs": _COUNT, "weight": _SHARE}),
    Trial: Declared({"n_epochs": _COUNT, "weight": _SHARE}),
    calibration.Squares: Declared(
        dict.fromkeys(("error", "between"), _NOT_NEGATIVE)
        | dict.fromkeys(("n_rows", "n_pooled", "n_members"), _POSITIVE)
    ),
    calibration.Levels: Declared(
        {"low": _LOG, "high": _LOG, "variance": within(0.0, noise.LARGEST_VARIANCE)}
    ),
    calibration.NoiseNetwork: Declared(types={"posterior": checkpoint.NoiseWeights}),
    recalibrated.Recalibration: Declared(
        dict.fromkeys(("scale", "count", "width", "bandwidth"), _POSITIVE)
        | {"dof": above(2.0), "low": anything, "high": anything},
        {"cells": "n k", "center": "k", "scale": "k", "cell": "m", "bin": "m", "count": "m"},
        check=_check_recalibration,
    ),
    # NaN if no noise network was tried.
    calibration.Calibration: Declared(
        dict.fromkeys(("gain", "gain_error"), lambda x: not math.isinf(x))
    ),
    calibration.ClassCalibration: Declared(
        dict.fromkeys(("temperature", "precision", "n_rows"), _POSITIVE)
    ),
}

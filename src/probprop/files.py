"""Save and load fitted models: the fields of each class in a file, and their valid values.

`probprop.io` writes and checks the fields that are declared here, or annotated in their class.
Derived fields are not in the file: they are computed when the object is made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
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
from probprop.distributions.recalibrated import SCORES, Recalibration
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.base import publish
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.base import Group, policy_of
from probprop.estimators.cv.calibration import (
    Calibration,
    ClassCalibration,
    Levels,
    NoiseNetwork,
    Range,
    Squares,
)
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.missing import LARGEST_FACTOR, Joint
from probprop.estimators.cv.policy import Candidate, read_budget, read_candidates
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.cv.search import Trial
from probprop.estimators.ensemble import PBPEnsemble, check_ensemble, member_kind
from probprop.estimators.kind import column_moments, members, transformation_of
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_int, check_parameters
from probprop.facts import model_facts
from probprop.inference import checkpoint
from probprop.inference.checkpoint import NoiseWeights
from probprop.inference.engine import ENGINES
from probprop.inference.likelihoods import Gaussian, Heavy, LabelLikelihood, Multinomial, Probit
from probprop.inference.noise import LARGEST_LOG, LARGEST_VARIANCE
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.standardize import Standardizer, check_target_scale
from probprop.inference.training import Fitted
from probprop.io import MODEL, Declared, above, anything, typed, within

_Path = str | os.PathLike[str]
Network = PBPRegressor | PBPClassifier
Estimator = Network | PBPEnsemble | PBPRegressorCV | PBPClassifierCV


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
            check=_check_columns,
            take=lambda encoder: {"encoders": list(encoder.encoders_)},
            make=table_encoder,
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

_SPLITTERS = (
    "GroupKFold",
    "GroupShuffleSplit",
    "KFold",
    "LeaveOneGroupOut",
    "LeaveOneOut",
    "RepeatedKFold",
    "ShuffleSplit",
    "StratifiedGroupKFold",
    "StratifiedKFold",
    "StratifiedShuffleSplit",
    "TimeSeriesSplit",
)


def _taken_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of an estimator as JSON."""
    parameters = model.get_params(deep=False)
    if "cv" in parameters and not _is_splitter(parameters["cv"]):
        cv = parameters["cv"]
        raise TypeError(
            f"cv is {'None' if cv is None else f'a {type(cv).__name__}'}, which a file cannot "
            "hold, but an int and the splitters of scikit-learn it can; to save the model all the "
            "same, give another first, for example set_params(cv=5): it matters to the next fit "
            "only"
        )
    if not isinstance(parameters.get("candidates", ""), str):
        given = parameters["candidates"]
        parameters["candidates"] = list(read_candidates(given, "good", policy_of(model, 0)))
    return {k: _plain(value) for k, value in parameters.items()}


def _is_splitter(cv: Any) -> bool:
    """Whether a file can hold the parameter `cv`: "auto", an int, or scikit-learn's splitter.

    Other splitters are refused: a loaded model would use other folds in a later fit.
    """
    if isinstance(cv, str | int | np.integer):
        return cv == "auto" if isinstance(cv, str) else not isinstance(cv, bool)
    name = type(cv).__name__
    return name in _SPLITTERS and type(cv) is _splitter(name)


def _splitter(name: str) -> Any:
    return getattr(import_module("sklearn.model_selection"), name)  # slow, and seldom needed


def _plain(value: Any) -> Any:
    """Return a parameter as JSON; objects are mappings, and a RandomState is null."""
    if isinstance(value, BaseEstimator):
        if type(value) not in _NETWORKS.values():
            raise TypeError(f"{type(value).__name__} is another class; use pickle")
        return {"estimator": type(value).__name__, "parameters": _taken_parameters(value)}
    if isinstance(value, Candidate):
        return {"candidate": io.encode(Candidate, value, _DECLARED)[0]}
    if type(value).__name__ in _SPLITTERS:
        state = vars(value) | vars(value).get("cvargs", {})  # a repeated splitter has some there
        own = {k: _plain(state[k]) for k in signature(type(value)).parameters}
        return {"splitter": type(value).__name__, "parameters": own}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
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
        return io.decode(Candidate, node["candidate"], {}, _DECLARED)
    own = typed(node.get("parameters"), dict, "parameters")
    if node.keys() == {"estimator", "parameters"} and node["estimator"] in _NETWORKS:
        return _unfitted(_NETWORKS[node["estimator"]], own)
    flat = not any(isinstance(value, list | dict) for value in own.values())
    if node.keys() == {"splitter", "parameters"} and node["splitter"] in _SPLITTERS and flat:
        return _splitter(node["splitter"])(**own)
    raise ValueError("a parameter is not one that a model has")


def _unfitted(kind: Any, parameters: Any) -> Any:
    """Return an estimator with parameters of a file, which are checked; others get defaults."""
    found = typed(parameters, dict, "parameters")
    model = kind(**{k: _parameter(value) for k, value in found.items()})
    if isinstance(model, PBPEnsemble):
        check_ensemble(model)
    else:
        check_parameters(model)
    if hasattr(model, "candidates"):
        read_budget(model.budget)
        read_candidates(model.candidates, model.budget, policy_of(model, 0))
        if not _is_splitter(model.cv):
            raise ValueError("cv is neither an int nor a splitter")
        if isinstance(model.cv, int):
            check_int("cv", model.cv, 2)
    check_random_state(model.random_state)
    return model


# ---- Networks

_NETWORKS: dict[str, type[Network]] = {k.__name__: k for k in (PBPRegressor, PBPClassifier)}
_NUMBERS = [np.dtype(code) for code in np.typecodes["AllInteger"] + "efd"]
_CLASS_KINDS: dict[str, type] = {t.name: float if t.kind == "f" else int for t in _NUMBERS}
_CLASS_KINDS |= {"bool": bool, "str": str, "object": str}
_FURTHEST = 1e13  # the standardizer has no scale below 1e-12 of the size of a column
_COUNT = within(1, io.LARGEST_COUNT)


def _taken(make: Any, model: Any) -> dict[str, Any]:
    """Return the parameters and the fitted attributes of an estimator that `make` takes."""
    names = getattr(model, "feature_names_in_", None)
    found: dict[str, Any] = {
        "parameters": _taken_parameters(model),
        "feature_names_in_": None if names is None else [str(name) for name in names],
    }
    return found | {k: getattr(model, k) for k in signature(make).parameters if k not in found}


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
        raise ValueError(f"its parts are not those of one {likelihood_.task} network")
    q, s = posterior_, standardizer_
    found, fixed = (q.alpha_noise, q.beta_noise, s.y_mean, s.y_scale), likelihood_.noise_prior
    if not likelihood_.learns_noise and found != (*fixed, 0.0, 1.0):
        raise ValueError("the noise or the scale of the labels is not that of a classifier")
    tails = [q.tail, getattr(q.noise_network, "tail", np.zeros(1))]
    if not likelihood_.learns_tail and any(tail.any() for tail in tails):
        raise ValueError("tail is not that of Gaussian noise")
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
    kind = _CLASS_KINDS.get(dtype)
    if kind is None or len(values) < 2 or any(type(value) is not kind for value in values):
        raise ValueError("classes are not two or more of one type")
    if any(not one < other for one, other in pairwise(values)):
        raise ValueError("classes are not sorted, or not all different")
    if kind is float and not np.isfinite(values).all():
        raise ValueError("classes are not all finite")
    with suppress(OverflowError, FloatingPointError), np.errstate(over="raise"):
        classes = np.array(values, dtype)
        if classes.tolist() == values:
            return classes
    raise ValueError(f"classes are not all of the dtype {dtype}")


def _check_standardizer(s: Standardizer) -> None:
    # A column that is constant, or without any value, may have no scale.
    known = np.ones_like(s.x_mean) if s.missing_variance is None else s.missing_variance
    if not (np.isfinite(s.x_scale) | (known == 0.0)).all():
        raise ValueError("x_scale has values that are out of range")
    check_target_scale(s.y_scale)
    _check_scales(s.x_mean, s.x_scale)
    _check_scales(s.y_mean, s.y_scale)


def _check_scales(mean: Array, scale: Array) -> None:
    """Refuse means so far from 0, in units of their scales, that no data could have them."""
    if not (np.abs(mean) <= _FURTHEST * scale).all():
        raise ValueError("the means and the scales are none that data have")


# ---- Ensembles and cross-validated estimators


def _ensemble(
    parameters: Any, estimators_: list[Network], feature_names_in_: list[str] | None
) -> Any:
    """Return the fitted ensemble with these members."""
    model = _unfitted(PBPEnsemble, parameters)
    if {type(member) for member in estimators_} != {type(member_kind(model))}:
        raise ValueError("estimators_ is empty, or has members of another class")
    model.estimators_, model.likelihood_ = estimators_, estimators_[0].likelihood_
    _give_names(model, estimators_[0].n_features_in_, feature_names_in_)
    return model


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
) -> Any:
    """Return the fitted cross-validated estimator with these attributes."""
    model = _unfitted(kind, parameters)
    if not groups_ or not estimators_ or len(estimators_) % len(groups_):
        raise ValueError("groups_ do not have as many members each")
    if abs(sum(group.weight for group in groups_) - 1.0) > 1e-6:
        raise ValueError("the weights of groups_ do not sum to 1")
    model.estimators_, model.groups_, model.trials_ = estimators_, groups_, trials_
    model.bounds_, model.calibration_, model.joint_ = bounds_, calibration_, joint_
    model.n_samples_seen_, model.likelihood_ = n_samples_seen_, estimators_[0].likelihood_
    model.encoder_ = encoder_
    if (joint_ is None) != (model.missing == "error"):
        raise ValueError("the joint distribution of the features does not fit `missing`")
    transformation = transformation_of(model)
    power = None if transformation is None else transformation.power
    for group, own in model.members_by_group:
        candidate, encoding = group.candidate, group.encoding
        n_inputs = len(bounds_.low) if encoding is None else encoding.n_outputs
        sizes = (n_inputs, *candidate.layers, model.likelihood_.n_outputs)
        if (
            any(member.posterior_.layer_sizes != sizes for member in own)
            or (encoding is None and candidate.n_bins is not None)
            or (encoding is not None and candidate.n_bins is None and len(encoding.column) > 0)
            or candidate.power != power
        ):
            raise ValueError("its parts are not those of the candidate that was chosen")
    n_columns = len(bounds_.low)
    if encoder_ is not None:
        if len(encoder_.names) != n_columns:
            raise ValueError("the columns are not those that the estimator was fitted on")
        n_columns = encoder_.n_features_in_
    _give_names(model, n_columns, feature_names_in_)
    return model


def _check_trial(trial: Trial) -> None:
    if len(trial.n_epochs) != len(trial.scores):
        raise ValueError("a trial of trials_ does not have a score for each rung")


def _check_range(box: Range | InputBounds) -> None:
    """Refuse ends that are not in order; a feature without any value has none."""
    ordered = np.isfinite(box.low) & np.isfinite(box.high) & (box.low <= box.high)
    empty = np.isnan(box.low) & np.isnan(box.high)
    if not (ordered | empty).all():
        raise ValueError("low and high are not the ends of ranges")


def _check_noise(network: NoiseNetwork) -> None:
    s, levels = network.standardizer, network.levels
    scaled = (s.x_scale >= 1.0 / _FURTHEST).all()  # encoded features are of the size of 1
    if not scaled or not s.leaves_targets or not levels.low <= levels.high:
        raise ValueError("the scales or the levels of the noise network are invalid")


def _check_encoding(state: PiecewiseLinear) -> None:
    _check_scales(state.center, state.scale)
    known = state.column.dtype.kind == "i" and np.isin(state.column, np.arange(len(state.center)))
    first = state.one_hot
    if first is not None and not all(
        own[0] == first[own[0]] and own[-1] - own[0] == len(own) - 1 for own in state.sets
    ):
        raise ValueError("the one-hot sets of the encoding are not columns side by side")
    if (
        not np.all(known)
        or (np.diff(state.column) < 0).any()
        or not (state.start < state.end).all()
    ):
        raise ValueError("the encoding has ramps of columns out of order, of none, or without rise")


def _check_joint(joint: Joint) -> None:
    n, S = len(joint.encoding.center), joint.covariance
    same = np.diff(joint.column) == 0
    ascend = all((np.diff(a)[same] > 0.0).all() for a in (joint.value, joint.score))
    complete = np.array_equal(np.unique(joint.column), np.arange(n))
    if not complete or not ascend or (np.diff(joint.column) < 0).any():
        raise ValueError("the quantiles of the features are none that a model has")
    if (len(joint.discrete), len(joint.factor)) != (n, n + 1):
        raise ValueError("the joint distribution does not have a number per feature")
    if S is not None and (S.shape != (joint.encoding.n_outputs,) * 2 or not (S == S.T).all()):
        raise ValueError("the covariance of the scores is not a symmetric matrix")


# ---- Models of tables


class _Scores(NamedTuple):
    """What a fit reports."""

    measured_on: Literal["out-of-fold", "held-out"]
    n_samples: int
    targets: dict[str, dict[str, float | None]]
    positive_class: str | None = None  # of two classes: the rarer one


def _check_columns(encoder: Any) -> None:
    """Refuse two columns, or two levels of a column, of one name."""
    names = [each.name for each in encoder.encoders_]
    for each in (names, *(column.levels for column in encoder.encoders_)):
        if len({*each}) < len(each):
            raise ValueError("the columns of the table, or their levels, are not different")


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
    """Refuse an estimator without finite predictions, or whose training cannot be continued.

    Inconsistent parts fail here, and so do extreme weights such as 1e200 and a noise of 5e-324.
    """
    nameless = model.on_inputs() if hasattr(model, "on_inputs") else copy(model)
    vars(nameless).pop("feature_names_in_", None)  # without which the samples would be warned of
    with np.errstate(all="ignore"):
        try:
            predicted = nameless.predict_distribution(_samples(model))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"no prediction follows from its parts: {error}") from error
        if is_classifier(model):
            answers = [np.exp(predicted.log_proba)]
        else:
            std = np.sqrt(predicted.epistemic_std**2 + np.asarray(predicted.aleatoric_std) ** 2)
            answers = [predicted.mean, 1.0 / std]
        if not all(np.isfinite(answer).all() for answer in answers):
            raise ValueError("it has numbers that no prediction follows from")
        for network in members(model) or [model]:
            _check_refinement(network)


def _samples(model: Any) -> Array:
    """Return the mean of the features, and a standard deviation to either side, (n, n_features).

    If missing values are completed there are also two samples that miss every second feature.
    """
    mean, scale = column_moments(model)
    rows = mean + np.array([[0.0], [1.0], [-1.0]]) * np.where(np.isfinite(scale), scale, 0.0)
    finite: Array = np.where(np.isfinite(rows), rows, mean)
    if getattr(model, "joint_", None) is None:
        return finite
    odd = np.arange(len(mean)) % 2 == 1
    return np.vstack([finite, *(np.where(kept, mean, np.nan) for kept in (odd, ~odd))])


def _check_refinement(network: Any) -> None:
    """Refuse a prior whose next refinement, in `partial_fit`, leaves no valid weights."""
    q = network.posterior_
    groups = None if network.prior == "shared" else np.arange(q.layer_sizes[0], dtype=np.int32)
    refined, _ = ENGINES["native"].refine_prior(q, groups=groups)
    layers = [*refined.m_w, *refined.v_w, np.array([refined.prior_variance])]
    positive = all((layer > 0.0).all() for layer in refined.v_w)
    if not positive or not all(np.isfinite(layer).all() for layer in layers):
        raise ValueError("its prior is invalid for further training")


# ---- Declarations

_POSITIVE, _NOT_NEGATIVE = above(0.0), within(0.0, float(np.finfo(np.float64).max))
_SQUARE = within(0.0, 1e100)  # of errors, in units of the variances that were predicted
_FACTOR = within(1.0, LARGEST_FACTOR)
_SHARE = within(0.0, 1.0)
_NOISE_PRIOR = {"noise_shape": above(1.0, 1e101), "noise_rate": within(1e-100, 1e100)}
_SCALE = within(float(np.finfo(np.float64).smallest_subnormal), math.inf)
_LOG = within(-LARGEST_LOG, LARGEST_LOG)
_RAMP = within(1e-12, 1.0)  # the root mean square of a ramp that is 1 or -1 in one sample or more
_PRECISION = within(float(np.finfo(np.float64).smallest_subnormal), 1e100)


def _estimator(make: Any, **types: Any) -> Declared:
    counts = {"n_samples_seen_": _COUNT, "mean_sample_weight_": _POSITIVE}
    return Declared(counts, types=types, take=partial(_taken, make), make=make)


def _check_recalibration(shape: Recalibration) -> None:
    if shape.scale.shape != (2,) or not shape.low < shape.high:
        raise ValueError("a recalibration has two scales, and a support with low < high")
    for index, n in ((shape.cell, len(shape.cells)), (shape.bin, len(SCORES) + 1)):
        if index.dtype != np.int64 or not ((index >= 0) & (index < n)).all():
            raise ValueError(
                "a recalibration counts samples in a cell or bin that it does not have"
            )


_DECLARED: dict[Any, Declared] = {
    **checkpoint.DECLARED,
    PBPRegressor: _estimator(partial(_network, PBPRegressor), likelihood_=Gaussian | Heavy),
    PBPClassifier: _estimator(partial(_network, PBPClassifier), likelihood_=LabelLikelihood),
    PBPEnsemble: _estimator(_ensemble),
    PBPRegressorCV: _estimator(
        partial(_cross_validated, PBPRegressorCV),
        estimators_=list[PBPRegressor],
        calibration_=Calibration,
        encoder_=Literal[None],
    ),
    PBPClassifierCV: _estimator(
        partial(_cross_validated, PBPClassifierCV),
        estimators_=list[PBPClassifier],
        calibration_=ClassCalibration,
        encoder_=Literal[None],
    ),
    Gaussian: Declared(_NOISE_PRIOR),
    Heavy: Declared(_NOISE_PRIOR),
    Probit: Declared(types={"classes": _Labels}),
    Multinomial: Declared(types={"classes": _Labels}),
    _Labels: Declared(take=_taken_labels, make=_labels),
    Standardizer: Declared(
        {"x_scale": _SCALE, "y_scale": _POSITIVE, "missing_variance": lambda x: np.isin(x, (0, 1))},
        {"x_mean": "n", "x_scale": "n", "missing_variance": "n", "y_mean": "k", "y_scale": "k"},
        check=_check_standardizer,
    ),
    PiecewiseLinear: Declared(
        {"scale": _SCALE, "ramp_scale": _RAMP, "one_hot": lambda first: first >= -1},
        {"mean": "n", "scale": "n", "center": "n", "one_hot": "n"}
        | dict.fromkeys(("column", "start", "end", "ramp_center", "ramp_scale"), "m"),
        check=_check_encoding,
    ),
    InputBounds: Declared(
        {"low": anything, "high": anything, "growth": _NOT_NEGATIVE},
        {"low": "n", "high": "n", "growth": "n"},
        check=_check_range,
    ),
    Range: Declared(
        {"low": anything, "high": anything, "scale": _SCALE, "slope": _NOT_NEGATIVE},
        {"low": "n", "high": "n", "scale": "n"},
        check=_check_range,
    ),
    Joint: Declared(
        {"spread": _FACTOR, "factor": _FACTOR},
        {"column": "q", "value": "q", "score": "q", "discrete": "n", "factor": "m"},
        check=_check_joint,
    ),
    Candidate: Declared(types={"hidden_layer_sizes": tuple[int, ...]}),
    Group: Declared({"n_epochs": _COUNT, "weight": _SHARE}),
    Trial: Declared({"n_epochs": _COUNT, "weight": _SHARE}, check=_check_trial),
    Squares: Declared(
        {"error": _SQUARE, "between": _SQUARE}
        | dict.fromkeys(("n_rows", "n_pooled", "n_members"), _POSITIVE)
    ),
    Levels: Declared({"low": _LOG, "high": _LOG, "variance": within(0.0, LARGEST_VARIANCE)}),
    NoiseNetwork: Declared(check=_check_noise, types={"posterior": NoiseWeights}),
    Recalibration: Declared(
        dict.fromkeys(("scale", "count", "width", "bandwidth"), _POSITIVE)
        | {"dof": above(2.0), "low": anything, "high": anything},
        {"cells": "n k", "center": "k", "scale": "k", "cell": "m", "bin": "m", "count": "m"},
        check=_check_recalibration,
    ),
    # NaN if no noise network was tried.
    Calibration: Declared(dict.fromkeys(("gain", "gain_error"), lambda x: not math.isinf(x))),
    ClassCalibration: Declared(
        {"temperature": _POSITIVE, "precision": _PRECISION, "n_rows": _POSITIVE}
    ),
}

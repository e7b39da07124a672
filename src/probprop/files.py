"""Save and load fitted models: what each class has in a file, and which values it may have.

`probprop.io` writes and checks the fields that are declared here, or annotated in their class. What
follows from other fields is not in the file: it is computed by whatever makes the object.
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
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state

from probprop import io
from probprop._types import Array, FloatArray
from probprop.encoding.bounds import InputBounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.base import publish
from probprop.estimators.classifier import PBPClassifier
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
from probprop.estimators.cv.search import CandidateCurve, CVChoice
from probprop.estimators.ensemble import PBPEnsemble, check_ensemble, member_kind
from probprop.estimators.kind import first_network, members, transformation_of
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_gamma, check_int, check_parameters
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
        hint, declared = _known(type(model).__name__)
        tree, arrays = io.encode(hint, model, declared)
        _decoded(tree, arrays)  # a model that could not be loaded is not saved
        io.write_file(path, MODEL, tree | {"facts": facts_of(model)}, arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The model cannot be saved: {error}") from error


def load(path: _Path) -> Any:
    """Read a model that its `save` method wrote; it predicts and goes on exactly as before.

    A file that is no model, is damaged, or was written by a newer probprop raises
    `ModelFileError`. Files of unknown origin are safe to try: nothing in them is run.
    """
    with io.reading_model(path):
        tree, arrays, _ = io.read_file(path, MODEL)
        tree.pop("facts", None)  # they are for ``probprop info``, which does not load the model
        return _decoded(tree, arrays)


def facts_of(model: Any) -> list[list[str]]:
    """Describe a model in words, but for its features and version, which the header has."""
    plain = isinstance(model, BaseEstimator)
    estimator, target = (model, "the target") if plain else (model.estimator, model.target)
    facts = model_facts(estimator, [], target)
    return [fact for fact in facts if fact[0] not in ("Feature", "Features", "Version")]


def _known(name: Any) -> tuple[Any, dict[Any, Declared]]:
    """Return the type of models, and what is declared; tables only if needed: they need pandas."""
    if name != "TableModel":
        return Estimator, _DECLARED
    from probprop.table import TableModel

    declared = Declared(check=_check_table, ranges={"baseline": np.isfinite})
    return Estimator | TableModel, _DECLARED | {TableModel: declared}


def _decoded(tree: Any, arrays: dict[str, Array]) -> Any:
    hint, declared = _known(tree.get("class"))
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
        parameters["candidates"] = list(read_candidates(parameters["candidates"], "good", 0))
    return {k: _plain(value) for k, value in parameters.items()}


def _is_splitter(cv: Any) -> bool:
    """Whether a file can hold how samples are split: an int, or a splitter of scikit-learn.

    Others are refused: a model that came back with other folds would be fitted again with those.
    """
    if isinstance(cv, int | np.integer):
        return not isinstance(cv, bool)
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
        read_candidates(model.candidates, model.budget, 0)
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
    """Return the fitted network with these attributes, if they fit together."""
    model = _unfitted(kind, parameters)
    q, s, likelihood, n_outputs = posterior_, standardizer_, likelihood_, likelihood_.n_outputs
    if q.layer_sizes[-1] != n_outputs:
        raise ValueError(f"the layers are not those of a {likelihood.task} network")
    model.likelihood_ = likelihood
    shape = (n_outputs if likelihood.learns_noise else 1,)
    if not q.alpha_noise.shape == s.y_mean.shape == shape:
        raise ValueError("alpha_noise or y_mean does not have a number per target")
    found = (q.alpha_noise, q.beta_noise, s.y_mean, s.y_scale)
    fixed = (*likelihood.noise_prior, 0.0, 1.0)
    if not likelihood.learns_noise and any(a != b for a, b in zip(found, fixed, strict=True)):
        raise ValueError("the noise or the scale of the labels is not that of a classifier")
    tails = [q.tail, *([] if q.noise_network is None else [q.noise_network.tail])]
    if not likelihood.learns_tail and any(tail.any() for tail in tails):
        raise ValueError("tail is not that of Gaussian noise")
    if len(s.x_mean) != q.layer_sizes[0]:
        raise ValueError("x_mean does not have a number per input of posterior_")
    _check_scales("X", s.x_mean, s.x_scale)
    _check_scales("y", s.y_mean, s.y_scale)
    if not history_ or [e.n_iter for e in history_] != [*range(1, len(history_) + 1)]:
        raise ValueError("history_ does not have every epoch")
    if any(np.size(e.noise_variance) != shape[0] for e in history_):
        raise ValueError("noise_variance in history_ does not have a number per target")
    if not all(math.isfinite(e.mean_log_Z) for e in history_):
        raise ValueError("mean_log_Z in history_ is not finite")
    fitted = Fitted(q, s, history_[-1], log_evidence_, n_samples_seen_)
    publish(model, fitted, history_, mean_sample_weight_)
    _give_names(model, len(s.x_mean), feature_names_in_)
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


def _check_noise_prior(likelihood: Gaussian) -> None:
    check_gamma("noise_shape", likelihood.noise_shape, 1.0)
    check_gamma("noise_rate", likelihood.noise_rate, 0.0)


def _check_probit(likelihood: Probit) -> None:
    known = likelihood.classes.tolist()
    if not (known == list(range(len(known))) if likelihood.multilabel else len(known) == 2):
        raise ValueError("classes are not two, or the columns of a matrix of labels")


def _check_standardizer(s: Standardizer) -> None:
    # A column that is constant, or without any value, may have no scale.
    known = np.ones_like(s.x_mean) if s.missing_variance is None else s.missing_variance
    if not (np.isfinite(s.x_scale) | (known == 0.0)).all():
        raise ValueError("x_scale has values that are out of range")
    check_target_scale(s.y_scale)


def _check_scales(name: str, mean: FloatArray, scale: FloatArray) -> None:
    """Refuse means so far from 0, in units of their scales, that no data could have them."""
    if not (np.abs(mean) <= _FURTHEST * scale).all():
        raise ValueError(f"the mean and the scale of {name} are none that data have")


# ---- Ensembles and cross-validated estimators


def _ensemble(
    parameters: Any, estimators_: list[Network], feature_names_in_: list[str] | None
) -> Any:
    """Return the fitted ensemble with these members."""
    model = _unfitted(PBPEnsemble, parameters)
    _check_members(type(member_kind(model)), estimators_)
    model.estimators_ = estimators_
    model.likelihood_ = estimators_[0].likelihood_
    _give_names(model, estimators_[0].n_features_in_, feature_names_in_)
    return model


def _check_members(kind: type[Network], found: list[Any]) -> None:
    """Refuse members of another class, or with features or targets of their own."""
    if not found:
        raise ValueError("estimators_ is empty")
    if any(type(member) is not kind for member in found):
        raise ValueError(f"estimators_ has a member that is not a {kind.__name__}")
    first = found[0]
    for member in found:  # only the ensemble keeps the names
        if member.n_features_in_ != first.n_features_in_ or hasattr(member, "feature_names_in_"):
            raise ValueError("the members do not have the same features")
        own, usual = member.likelihood_, first.likelihood_
        if (type(own), own.n_outputs) != (type(usual), usual.n_outputs):
            raise ValueError("the members do not have the same outputs")
        if kind is PBPClassifier and (
            own.multilabel != usual.multilabel
            or _taken_labels(own.classes) != _taken_labels(usual.classes)
        ):
            raise ValueError("the members do not have the same classes")


def _cross_validated(
    kind: Any,
    parameters: Any,
    estimators_: list[Any],
    choice_: CVChoice,
    calibration_: Any,
    bounds_: InputBounds,
    encoding_: PiecewiseLinear | None,
    joint_: Joint | None,
    n_partitions_: int,
    n_samples_seen_: int,
    feature_names_in_: list[str] | None,
) -> Any:
    """Return the fitted cross-validated estimator with these attributes, if they fit together."""
    model = _unfitted(kind, parameters)
    _check_candidate(choice_, encoding_, estimators_)
    first = estimators_[0]
    n_features = first.n_features_in_ if encoding_ is None else len(encoding_.center)
    model.estimators_, model.choice_, model.calibration_ = estimators_, choice_, calibration_
    model.bounds_, model.encoding_, model.joint_ = bounds_, encoding_, joint_
    model.n_partitions_, model.n_samples_seen_ = n_partitions_, n_samples_seen_
    model.likelihood_ = first.likelihood_
    _give_names(model, n_features, feature_names_in_)
    if len(estimators_) % n_partitions_:
        raise ValueError("the partitions do not have as many members each")
    if encoding_ is not None:
        _check_scales("X", encoding_.center, encoding_.scale)
    if (joint_ is None) != (model.missing == "error"):
        raise ValueError("the joint distribution of the features does not fit `missing`")
    g, candidate, noise = transformation_of(model), choice_.candidate, {"auto"}
    if candidate.power != (None if g is None else g.power):
        raise ValueError("the transformation is not that of the candidate that was chosen")
    per_feature = {"bounds_": bounds_.low}
    if joint_ is not None:
        per_feature["joint_"] = joint_.discrete
    if isinstance(calibration_, Calibration):
        squares, network = calibration_.squares, calibration_.noise
        if (squares.n_pooled, squares.n_members) != (n_partitions_, len(estimators_)):
            raise ValueError("the squares of calibration_ are those of other members")
        per_feature["calibration_/range"] = calibration_.range.low
        if network is not None:
            per_feature["calibration_/noise"] = network.encoding.center
        noise |= {"constant" if network is None else "input"}
    if wrong := [k for k, array in per_feature.items() if len(array) != n_features]:
        raise ValueError(f"{wrong[0]} does not have a number per feature")
    if candidate.noise not in noise:
        raise ValueError("the noise is not that of the candidate that was chosen")
    return model


def _check_candidate(choice: CVChoice, state: PiecewiseLinear | None, found: list[Any]) -> None:
    """Refuse members that the search could not have made."""
    if not found:
        raise ValueError("estimators_ is empty")
    candidate, first = choice.candidate, found[0]
    if (state is None) != (candidate.n_bins is None):
        raise ValueError("the encoding is not that of the candidate that was chosen")
    n_encoded = first.n_features_in_ if state is None else state.n_outputs
    sizes = (n_encoded, *candidate.layers, first.likelihood_.n_outputs)
    if any(member.posterior_.layer_sizes != sizes for member in found):
        raise ValueError("the members are not networks of the candidate that was chosen")
    _check_members(type(first), found)
    parameters, usual = first.get_params(), type(first)().get_params()
    for own in (member.get_params() for member in found):
        if own["n_epochs"] != choice.n_epochs:
            raise ValueError("the members have not made the epochs that were chosen")
        if any(own[k] != parameters[k] for k in ("dtype", "missing", "engine", "evidence_cap")):
            raise ValueError("the members do not have the same parameters")
        if any(own[k] != usual[k] for k in ("noise", "noise_tail") if k in usual):
            raise ValueError("the members have noise that no member has")


def _check_choice(choice: CVChoice) -> None:
    # On a cluster the networks of all rows may make other epochs than those of the sample.
    if choice.best >= len(choice.curves):
        raise ValueError("the best of choice_ is none of its candidates")


def _check_curve(curve: CandidateCurve) -> None:
    numbers = (curve.n_epochs, curve.calibrated, curve.raw, curve.factor)
    if len({len(each) for each in numbers}) > 1:
        raise ValueError("a curve of choice_ does not have as many numbers of each kind")
    if any(one >= other for one, other in pairwise(curve.n_epochs)):
        raise ValueError("n_epochs of a curve of choice_ do not ascend")


def _check_range(box: Range | InputBounds) -> None:
    """Refuse ends that are not in order; a feature without any value has none."""
    ordered = np.isfinite(box.low) & np.isfinite(box.high) & (box.low <= box.high)
    empty = np.isnan(box.low) & np.isnan(box.high)
    if isinstance(box, Range):
        empty &= np.isinf(box.scale)
    if not (ordered | empty).all():
        raise ValueError("low and high are not the ends of ranges")


def _check_noise(network: NoiseNetwork) -> None:
    sizes, s, levels = network.posterior.layer_sizes, network.standardizer, network.levels
    if (sizes[0], sizes[-1]) != (network.encoding.n_outputs, 1) or sizes[0] != len(s.x_mean):
        raise ValueError("the layers of the noise network do not fit its encoding")
    scaled = (s.x_scale >= 1.0 / _FURTHEST).all()  # encoded features are of the size of 1
    if s.missing_variance is None or not s.leaves_targets or len(s.y_mean) != 1 or not scaled:
        raise ValueError("the noise network has a standardizer that no model has")
    if network.posterior.tail.any() or not levels.low <= levels.high:
        raise ValueError(f"the levels of the noise network are invalid: got {tuple(levels)}")


def _check_encoding(state: PiecewiseLinear) -> None:
    known = np.isin(state.column, np.arange(len(state.center))).all()
    if state.column.dtype != np.int64 or not known or (np.diff(state.column) < 0).any():
        raise ValueError("the encoding has ramps of columns out of order, or of none")
    if not (state.start < state.end).all():
        raise ValueError("the encoding has a ramp that does not rise")


def _check_joint(joint: Joint) -> None:
    encoding, S, n = joint.encoding, joint.covariance, len(joint.encoding.center)
    if (joint.column.dtype.kind, joint.discrete.dtype.kind) != ("i", "b"):
        raise ValueError("the dtypes of the joint distribution are none that a model has")
    lengths = (len(joint.discrete), len(joint.factor))
    if lengths != (n, n + 1) or not np.isfinite(encoding.scale).all():
        raise ValueError("the encoding of the scores does not fit the features")
    same = np.diff(joint.column) == 0
    ascend = all((np.diff(a)[same] > 0.0).all() for a in (joint.value, joint.score))
    complete = np.array_equal(np.unique(joint.column), np.arange(n))
    if not complete or not ascend or (np.diff(joint.column) < 0).any():
        raise ValueError("the quantiles of the features are none that a model has")
    if S is None:
        return
    if S.dtype != np.float32 or S.shape != (encoding.n_outputs,) * 2 or not (S == S.T).all():
        raise ValueError("the covariance of the scores is not a symmetric matrix of float32")
    try:
        np.linalg.cholesky(S.astype(np.float64))
    except np.linalg.LinAlgError as error:
        raise ValueError("the covariance of the scores is not positive definite") from error


# ---- Models of tables


def _check_table(model: Any) -> None:
    """Refuse columns that are not those of the estimator, or that have two roles."""
    from probprop.table.cells import PARTS

    estimator, encoder, kinds = model.estimator, model.encoder, model.encoder.kinds
    features, targets, counting = model.features, model.targets, model.counting
    if getattr(estimator, "multilabel_", False):
        raise ValueError("the target is a matrix of labels, not a column of a table")
    n_targets = getattr(estimator, "n_outputs_", 1)  # a classifier has one target
    if len(targets) != n_targets or isinstance(model.target, str) != (n_targets == 1):
        raise ValueError("target does not have a column for each output")
    names = [*features, *targets, *counting.names]
    if len({*names}) < len(names):
        raise ValueError("two columns of the table have the same name")
    if {*features} != kinds.keys():
        raise ValueError("features are not the columns of the encoder")
    if counting.error and len(counting.error) != n_targets:
        raise ValueError("the columns of errors are not one per target")
    described = {"text": encoder.categories, "date": encoder.parts}
    for kind, own in described.items():
        if own.keys() != {*encoder.of(kind)} or not all(own.values()):
            raise ValueError(f"the columns of kind {kind} are not described")
    if any(len({*known}) < len(known) for known in encoder.categories.values()):
        raise ValueError("categories are not different texts")
    if any(list(own) != [part for part in PARTS if part in own] for own in encoder.parts.values()):
        raise ValueError("the parts of a date are not those that dates have")
    if not encoder.orders.keys() <= encoder.parts.keys():
        raise ValueError("the order of a date is not that of a date")
    if len(encoder.names) != estimator.n_features_in_:
        raise ValueError("the columns are not those that the estimator was fitted on")
    if model.scores is not None:
        _check_scores(model.scores, targets)
    if not model.baseline:
        return
    if len(model.baseline) != n_targets or is_classifier(estimator):
        raise ValueError("baseline must have a mean and a standard deviation for each target")
    if any(std < 0.0 for _, std in model.baseline):
        raise ValueError("baseline has a standard deviation below 0")


def _check_scores(scores: dict[str, Any], targets: list[str]) -> None:
    """Refuse scores that no fit reports."""
    if scores.keys() != {"measured_on", "n_samples", "targets"}:
        raise ValueError("scores does not have measured_on, n_samples and targets")
    if scores["measured_on"] not in ("out-of-fold", "held-out"):
        raise ValueError("scores/measured_on is neither out-of-fold nor held-out")
    if not _COUNT(typed(scores["n_samples"], int, "scores/n_samples")):
        raise ValueError("scores/n_samples is out of range")
    found = typed(scores["targets"], dict, "scores/targets")
    if [*found] != targets:
        raise ValueError("scores/targets does not have the scores of each target")
    for target, each in found.items():
        for name, value in typed(each, dict, f"scores of {target}").items():
            if value is not None and not math.isfinite(typed(value, float, f"score {name}")):
                raise ValueError(f"the score {name[:50]} of {target[:50]} is not finite")


# ---- A trial: numbers may fit together and still be of no use


def _check_answers(model: Any) -> None:
    """Refuse an estimator that predicts nothing finite, or whose training could not go on.

    A weight of 1e200 is a finite number, and so is a noise of 5e-324, but no prediction follows.
    """
    nameless = copy(model)  # the samples have no names, which would be warned of
    vars(nameless).pop("feature_names_in_", None)
    with np.errstate(all="ignore"):
        try:
            predicted = nameless.predict_distribution(_samples(model))
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            raise ValueError(f"it has numbers that no prediction follows from: {error}") from error
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
    state = getattr(model, "encoding_", None)
    standardizer = first_network(model).standardizer_
    mean = standardizer.x_mean if state is None else state.mean
    scale = standardizer.x_scale if state is None else state.scale
    rows = mean + np.array([[0.0], [1.0], [-1.0]]) * np.where(np.isfinite(scale), scale, 0.0)
    finite: Array = np.where(np.isfinite(rows), rows, mean)
    if getattr(model, "joint_", None) is None:
        return finite
    odd = np.arange(len(mean)) % 2 == 1
    return np.vstack([finite, *(np.where(kept, mean, np.nan) for kept in (odd, ~odd))])


def _check_refinement(network: Any) -> None:
    """Refuse a prior whose next refinement, which `partial_fit` makes, leaves no weights."""
    refined, _ = ENGINES["native"].refine_prior(network.posterior_)
    layers = [*refined.m_w, *refined.v_w, np.array([refined.prior_variance])]
    positive = all((layer > 0.0).all() for layer in refined.v_w)
    if not positive or not all(np.isfinite(layer).all() for layer in layers):
        raise ValueError("it has a prior that no training can go on with")


# ---- Declarations

_POSITIVE, _NOT_NEGATIVE = above(0.0), within(0.0, float(np.finfo(np.float64).max))
_SQUARE = within(0.0, 1e100)  # of errors, in units of the variances that were predicted
_FACTOR = within(1.0, LARGEST_FACTOR)
_SCALE = within(float(np.finfo(np.float64).smallest_subnormal), math.inf)
_LOG = within(-LARGEST_LOG, LARGEST_LOG)
_RAMP = within(1e-12, 1.0)  # the root mean square of a ramp that is 1 or -1 in one sample or more
_PRECISION = within(float(np.finfo(np.float64).smallest_subnormal), 1e100)


def _estimator(make: Any, **types: Any) -> Declared:
    counts = {"n_samples_seen_": _COUNT, "n_partitions_": _COUNT, "mean_sample_weight_": _POSITIVE}
    return Declared(counts, types=types, take=partial(_taken, make), make=make)


_DECLARED: dict[Any, Declared] = {
    **checkpoint.DECLARED,
    PBPRegressor: _estimator(partial(_network, PBPRegressor), likelihood_=Gaussian | Heavy),
    PBPClassifier: _estimator(partial(_network, PBPClassifier), likelihood_=LabelLikelihood),
    PBPEnsemble: _estimator(_ensemble),
    PBPRegressorCV: _estimator(
        partial(_cross_validated, PBPRegressorCV),
        estimators_=list[PBPRegressor],
        calibration_=Calibration,
    ),
    PBPClassifierCV: _estimator(
        partial(_cross_validated, PBPClassifierCV),
        estimators_=list[PBPClassifier],
        calibration_=ClassCalibration,
    ),
    Gaussian: Declared(check=_check_noise_prior),
    Heavy: Declared(check=_check_noise_prior),
    Probit: Declared(types={"classes": _Labels}, check=_check_probit),
    Multinomial: Declared(types={"classes": _Labels}),
    _Labels: Declared(take=_taken_labels, make=_labels),
    Standardizer: Declared(
        {"x_scale": _SCALE, "y_scale": _POSITIVE, "missing_variance": lambda x: np.isin(x, (0, 1))},
        {"x_mean": "n", "x_scale": "n", "missing_variance": "n", "y_mean": "k", "y_scale": "k"},
        check=_check_standardizer,
    ),
    PiecewiseLinear: Declared(
        {"scale": _SCALE, "ramp_scale": _RAMP},
        {"mean": "n", "scale": "n", "center": "n"}
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
    Candidate: Declared(types={"hidden": tuple[int, ...]}),
    CandidateCurve: Declared({"n_epochs": _COUNT, "factor": _POSITIVE}, check=_check_curve),
    CVChoice: Declared({"n_epochs": _COUNT}, check=_check_choice),
    Squares: Declared({"error": _SQUARE, "between": _SQUARE, "n_rows": _POSITIVE}),
    Levels: Declared({"low": _LOG, "high": _LOG, "variance": within(0.0, LARGEST_VARIANCE)}),
    NoiseNetwork: Declared(check=_check_noise, types={"posterior": NoiseWeights}),
    # NaN if no noise network was tried.
    Calibration: Declared(dict.fromkeys(("gain", "gain_error"), lambda x: not math.isinf(x))),
    ClassCalibration: Declared(
        {"temperature": _POSITIVE, "precision": _PRECISION, "n_rows": _POSITIVE}
    ),
}

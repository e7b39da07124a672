"""Cross-validated estimators as a JSON header and arrays, and back."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn import model_selection
from sklearn.utils import check_random_state

from probprop._types import Array
from probprop.encoding import bounds
from probprop.encoding.piecewise import from_arrays, to_arrays
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.missing import LARGEST_FACTOR, Joint
from probprop.estimators.cv.policy import read_budget, read_candidates
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.kind import transformation_of
from probprop.estimators.validation import check_int, check_parameters
from probprop.files.calibrations import (
    Sizes,
    check_arrays,
    describe_calibration,
    describe_class_calibration,
    rebuild_calibration,
    rebuild_class_calibration,
)
from probprop.files.ensembles import check_same_classes, members_in
from probprop.files.fields import Parts, feature_names, field, joined, n_samples_seen, parted
from probprop.files.networks import describe_network, parameters_of, plain, rebuild_network
from probprop.files.races import (
    describe_candidates,
    describe_race,
    rebuild_candidates,
    rebuild_race,
)
from probprop.files.trial import check_scales


class _Kind(NamedTuple):
    """A class of cross-validated estimators, and what it is made of."""

    estimator: type[PBPRegressorCV | PBPClassifierCV]
    member: str
    describe_calibration: Callable[[Any], Parts]
    rebuild_calibration: Callable[[dict[str, Any], dict[str, Array], Sizes], Any]


CV_KINDS = {
    "PBPRegressorCV": _Kind(
        PBPRegressorCV, "PBPRegressor", describe_calibration, rebuild_calibration
    ),
    "PBPClassifierCV": _Kind(
        PBPClassifierCV, "PBPClassifier", describe_class_calibration, rebuild_class_calibration
    ),
}
"""The cross-validated estimators by name."""

_JOINT = ("column", "value", "score", "discrete", "factor")
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


def describe_cross_validated(model: Any) -> Parts:
    """Return the header and the arrays of a fitted estimator, without its rows held out."""
    members = [describe_network(member) for member in model.estimators_]
    name = type(model).__name__
    calibration, arrays = CV_KINDS[name].describe_calibration(model.calibration_)
    encoding = {} if model.encoding_ is None else to_arrays(model.encoding_)
    joint, of_scores = _describe_joint(model.joint_)
    header = {
        "class": name,
        "parameters": _describe_parameters(model),
        "feature_names_in_": [str(k) for k in getattr(model, "feature_names_in_", ())],
        "n_samples_seen_": int(model.n_samples_seen_),
        "n_partitions_": int(model.n_partitions_),
        "choice_": describe_race(model.choice_),
        "calibration_": calibration,
        "members": [header for header, _ in members],
    }
    of_members = {str(i): own for i, (_, own) in enumerate(members)}
    others = {
        "bounds": bounds.to_arrays(model.bounds_),
        "encoding": encoding,
        "calibration": arrays,
        "joint": joint,
        "scores": of_scores,
    }
    return header, joined(of_members | others)


def rebuild_cross_validated(header: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Undo `describe_cross_validated`; TypeError and ValueError say why that is not possible."""
    model = _rebuild_unfitted(header)
    members = members_in(header)
    kind = CV_KINDS[type(model).__name__]
    if any(field(member, "class", str) != kind.member for member in members):
        raise ValueError("a part of the model has a class that it cannot have")
    numbers = [str(i) for i in range(len(members))]
    own = parted(arrays, [*numbers, "bounds", "encoding", "calibration", "joint", "scores"])
    encoding, calibration = own["encoding"], own["calibration"]
    model.choice_ = rebuild_race(field(header, "choice_", dict))
    model.encoding_ = from_arrays(encoding) if encoding else None
    if (state := model.encoding_) is not None:
        check_scales("X", state.mean, state.scale)
    model.estimators_ = [
        rebuild_network(member, own[i]) for member, i in zip(members, numbers, strict=True)
    ]
    _check_members(model)
    check_same_classes(members)
    first = model.estimators_[0]
    model.n_features_in_ = first.n_features_in_ if state is None else len(state.mean)
    model.bounds_ = bounds.from_arrays(own["bounds"], model.n_features_in_)
    model.likelihood_ = first.likelihood_
    model.n_samples_seen_ = n_samples_seen(header)
    model.n_partitions_ = field(header, "n_partitions_", int)
    check_int("n_partitions_", model.n_partitions_, 1)
    if len(members) % model.n_partitions_:
        raise ValueError("the partitions do not have as many members each")
    sizes = Sizes(model.n_features_in_, len(members), model.n_partitions_)
    model.joint_ = _rebuild_joint(own["joint"], own["scores"], model.n_features_in_)
    if (model.joint_ is None) != (model.missing == "error"):
        raise ValueError("the joint distribution of the features does not fit `missing`")
    described = field(header, "calibration_", dict)
    model.calibration_ = kind.rebuild_calibration(described, calibration, sizes)
    g = transformation_of(model)
    if model.choice_.candidate.power != (None if g is None else g.power):
        raise ValueError("the transformation is not that of the candidate that was chosen")
    if model.choice_.candidate.noise not in _possible_noise(model.calibration_):
        raise ValueError("the noise is not that of the candidate that was chosen")
    if names := feature_names(header, model.n_features_in_):
        model.feature_names_in_ = np.array(names, object)
    return model


def _describe_joint(joint: Joint | None) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the arrays of a joint distribution, and those of its encoding."""
    if joint is None:
        return {}, {}
    arrays = {k: getattr(joint, k) for k in _JOINT}
    arrays |= {"discrete": joint.discrete.astype(np.int64), "spread": np.array([joint.spread])}
    if joint.covariance is not None:
        arrays["covariance"] = joint.covariance
    return arrays, to_arrays(joint.encoding)


def _rebuild_joint(
    arrays: dict[str, Array], of_scores: dict[str, Array], n_features: int
) -> Joint | None:
    """Undo `_describe_joint`, for a model with so many features."""
    if not arrays and not of_scores:
        return None
    encoding, n = from_arrays(of_scores), np.size(arrays.get("column", ()))
    kinds: dict[str, Any] = {k: ("float64", (n,)) for k in ("value", "score")}
    kinds |= {"column": ("int64", (n,)), "discrete": ("int64", (n_features,))}
    kinds |= {"factor": ("float64", (n_features + 1,)), "spread": ("float64", (1,))}
    if "covariance" in arrays:
        kinds["covariance"] = ("float32", (encoding.n_outputs,) * 2)
    check_arrays(arrays, kinds)
    others = {"discrete": arrays["discrete"] == 1, "spread": float(arrays["spread"][0])}
    joint = Joint(**{"covariance": None, **arrays, **others}, encoding=encoding)
    same = np.diff(joint.column) == 0
    ascend = all((np.diff(a)[same] > 0.0).all() for a in (joint.value, joint.score))
    complete = np.array_equal(np.unique(joint.column), np.arange(n_features))
    if not complete or not ascend or (np.diff(joint.column) < 0).any():
        raise ValueError("the quantiles of the features are none that a model has")
    if len(encoding.mean) != n_features or not np.isfinite(encoding.scale).all():
        raise ValueError("the encoding of the scores does not fit the features")
    factors = np.append(joint.factor, joint.spread)
    if not ((factors >= 1.0) & (factors <= LARGEST_FACTOR)).all():
        raise ValueError("the factors of missing features are none that a model has")
    if (S := joint.covariance) is not None:
        try:
            np.linalg.cholesky(S.astype(np.float64))
        except np.linalg.LinAlgError as error:
            raise ValueError("the covariance of the scores is not positive definite") from error
        if not np.array_equal(S, S.T):
            raise ValueError("the covariance of the scores is not symmetric")
    return joint


def _possible_noise(calibration: Any) -> set[str]:
    """Return what a candidate may have asked for that was calibrated like this."""
    if not hasattr(calibration, "noise"):  # of labels
        return {"auto"}
    return {"auto", "constant" if calibration.noise is None else "input"}


def _check_members(model: Any) -> None:
    """Refuse members that the race could not have made."""
    candidate, state = model.choice_.candidate, model.encoding_
    if (state is None) != (candidate.n_bins is None):
        raise ValueError("the encoding is not that of the candidate that was chosen")
    first = model.estimators_[0]
    n_encoded = first.n_features_in_ if state is None else state.n_outputs
    sizes = [n_encoded, *candidate.layers, first.likelihood_.n_outputs]
    for member in model.estimators_:
        if list(member.posterior_.layer_sizes) != sizes or hasattr(member, "feature_names_in_"):
            raise ValueError("the members are not networks of the candidate that was chosen")
        own, parameters = member.get_params(), first.get_params()
        if own["n_epochs"] != model.choice_.n_epochs:
            raise ValueError("the members have not made the epochs that were chosen")
        if any(own[k] != parameters[k] for k in ("dtype", "missing", "engine", "memory")):
            raise ValueError("the members do not have the same parameters")
        usual = type(member)().get_params()
        if any(own[k] != usual[k] for k in ("noise", "noise_tail") if k in usual):
            raise ValueError("the members have noise that no member has")


# ---- Parameters


def _describe_parameters(model: Any) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    cv, candidates = parameters.pop("cv"), parameters.pop("candidates")
    if not isinstance(candidates, str):
        candidates = describe_candidates(read_candidates(candidates, "good", 0))
    plain_ones = {k: plain(value) for k, value in parameters.items()}
    return {"cv": _describe_cv(cv), "candidates": candidates, **plain_ones}


def _rebuild_unfitted(header: dict[str, Any]) -> Any:
    kind = CV_KINDS[field(header, "class", str)].estimator
    parameters = parameters_of(kind, header)
    if isinstance(candidates := parameters["candidates"], list):
        parameters["candidates"] = rebuild_candidates(candidates)
    parameters["cv"] = _rebuild_cv(parameters["cv"])
    model = kind(**parameters)
    check_parameters(model)
    read_budget(model.budget)
    read_candidates(model.candidates, model.budget, 0)
    check_random_state(model.random_state)
    return model


def _describe_cv(cv: Any) -> Any:
    """Return how rows are parted, as JSON holds it: an int, or a splitter of scikit-learn.

    Others are refused: a model that came back with other folds would be fitted again with those.
    """
    if isinstance(cv, int | np.integer):
        return int(cv)
    name = type(cv).__name__
    known = getattr(model_selection, name, None) if name in _SPLITTERS else None
    if cv is None or known is None or type(cv) is not known:
        raise TypeError(
            f"cv is {'None' if cv is None else f'a {name}'}, which a file cannot hold, but an int "
            "and the splitters of scikit-learn it can; to save the model all the same, give "
            "another first, for example set_params(cv=5): it matters to the next fit only"
        )
    state = vars(cv) | vars(cv).get("cvargs", {})  # a repeated splitter keeps some there
    values = {k: state[k] for k in signature(known).parameters}
    return {"splitter": name, "parameters": {k: plain(v) for k, v in values.items()}}


def _rebuild_cv(described: Any) -> Any:
    if not isinstance(described, dict):
        check_int("cv", described, 2)
        return described
    name = field(described, "splitter", str)
    parameters = field(described, "parameters", dict)
    if name not in _SPLITTERS or any(isinstance(v, list | dict) for v in parameters.values()):
        raise ValueError("cv is no splitter that a model has")
    return getattr(model_selection, name)(**parameters)

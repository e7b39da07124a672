"""Fitted estimators as a JSON header and arrays, and back; nothing here knows of files.

Two functions per estimator: one describes it, its parts named after the attributes they come
from, and one rebuilds it, from parts that may come from anyone: it accepts only what the first
one gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.estimators.validation import check_int
from probprop.files.choices import describe_choice, field, rebuild_choice
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.standardize import Standardizer
from probprop.table.names import target_names

if TYPE_CHECKING:  # these import this module
    from probprop.estimators.base import PBPEstimator
    from probprop.estimators.classifier import PBPClassifier
    from probprop.estimators.ensemble import PBPEnsemble
    from probprop.estimators.regressor import PBPRegressor
    from probprop.table import TableModel

Model: TypeAlias = "PBPRegressor | PBPClassifier | PBPEnsemble | TableModel"
Estimator = TypeVar("Estimator", bound="PBPEstimator")
Parts = tuple[dict[str, Any], dict[str, Array]]  # header and arrays

_LAYERED = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
_ABOVE = {"alpha_noise": 1.0, "beta_noise": 0.0, "alpha_prior": 1.0, "beta_prior": 0.0}
_ABOVE |= {"y_mean": -math.inf, "y_scale": 0.0, "log_evidence_": -math.inf}
_OF_TARGETS = ("alpha_noise", "beta_noise", "y_mean", "y_scale")  # with several, a list each
_NUMBERS = [np.dtype(code) for code in np.typecodes["AllInteger"] + "efd"]
_CLASS_KINDS: dict[str, type] = {t.name: float if t.kind == "f" else int for t in _NUMBERS}
_CLASS_KINDS |= {"bool": bool, "str": str, "object": str}
_NETWORKS = ("PBPRegressor", "PBPClassifier")  # what ensembles are made of
_HISTORY = {k: "int64" if t is int else "float64" for k, t in get_type_hints(Epoch).items()}
# noise_variance has a column per target where there are several.


def _describe_regressor(model: PBPRegressor) -> Parts:
    """Return the header and the arrays of a fitted regressor."""
    return _describe_fitted(model, "PBPRegressor")


def _describe_classifier(model: PBPClassifier) -> Parts:
    """Return the header and the arrays of a fitted classifier."""
    header, arrays = _describe_fitted(model, "PBPClassifier")
    dtype = "str" if model.classes_.dtype.kind == "U" else model.classes_.dtype.name
    classes = {"dtype": dtype, "values": model.classes_.tolist()}
    return header | {"classes_": classes, "multilabel_": model.multilabel_}, arrays


def _describe_fitted(model: PBPEstimator, expected: str) -> Parts:
    described = _describe_unfitted(model, expected)
    state = vars(model) | vars(model.posterior_) | vars(model.standardizer_)
    header = {
        **described,
        "feature_names_in_": [str(k) for k in state.get("feature_names_in_", ())],
        "layer_sizes": list(model.posterior_.layer_sizes),
        "weights_dtype": model.posterior_.dtype.name,
        "n_iter_": model.n_iter_,
        "n_samples_seen_": model.n_samples_seen_,
        "choice_": describe_choice(model.choice_),
        **{k: _plain(state[k]) for k in _ABOVE},  # numbers, or lists of one per target
    }
    arrays = {f"{k}_{i}": array for k in _LAYERED for i, array in enumerate(state[k])}
    arrays |= {"x_mean": state["x_mean"], "x_scale": state["x_scale"]}
    if state["missing_variance"] is not None:
        arrays["missing_variance"] = state["missing_variance"]
    for k, dtype in _HISTORY.items():
        arrays[f"history_{k}"] = np.array([getattr(epoch, k) for epoch in model.history_], dtype)
    return header, arrays


def _describe_unfitted(model: BaseEstimator, *expected: str) -> dict[str, Any]:
    if (name := type(model).__name__) not in expected:
        raise TypeError(f"{name} is another class; use pickle")
    parameters = model.get_params(deep=False)
    return {"class": name, "parameters": {k: _plain(value) for k, value in parameters.items()}}


def _plain(value: Any) -> Any:
    """Return a parameter as JSON holds it: a tuple as a mapping, a RandomState as null."""
    if isinstance(value, BaseEstimator):
        return _describe_unfitted(value, *_NETWORKS)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_plain(item) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    return None if isinstance(value, np.random.RandomState) else value


def _rebuild_unfitted(header: dict[str, Any], kind: type[Estimator]) -> Estimator:
    if field(header, "class", str) != kind.__name__:
        raise ValueError("a part of the model is of a class that it cannot be made of")
    model = kind(**field(header, "parameters", dict))
    if isinstance(model.hidden_layer_sizes, dict):
        model.hidden_layer_sizes = tuple(field(model.hidden_layer_sizes, "tuple", list))
    model._check_parameters()
    check_random_state(model.random_state)
    return model


def _last_size(header: dict[str, Any]) -> int:
    """Return the units of the output layer, one or more."""
    sizes = field(header, "layer_sizes", list)
    check_int("the last of layer_sizes", sizes[-1] if sizes else None, 1)
    return int(sizes[-1])


def _rebuild_regressor(header: dict[str, Any], arrays: dict[str, Array]) -> PBPRegressor:
    """Undo `_describe_regressor`; TypeError and ValueError say why that is not possible."""
    from probprop.estimators.regressor import PBPRegressor

    model = _rebuild_unfitted(header, PBPRegressor)
    _rebuild_fitted(model, header, arrays, _last_size(header))
    return model


def _rebuild_classifier(header: dict[str, Any], arrays: dict[str, Array]) -> PBPClassifier:
    """Undo `_describe_classifier`; TypeError and ValueError say why that is not possible."""
    from probprop.estimators.classifier import PBPClassifier

    model = _rebuild_unfitted(header, PBPClassifier)
    model.multilabel_ = field(header, "multilabel_", bool)
    model.classes_ = _rebuild_classes(field(header, "classes_", dict))
    if model.multilabel_ and model.classes_.tolist() != list(range(len(model.classes_))):
        raise ValueError("classes_ are not the columns of a matrix of labels")
    _rebuild_fitted(model, header, arrays, model._n_outputs(model.classes_))
    q, scale = model.posterior_, model.standardizer_
    found = q.alpha_noise, q.beta_noise, scale.y_mean, scale.y_scale
    if found != (*model._noise_prior, 0.0, 1.0):
        raise ValueError("the noise or the scale of the labels is not that of a classifier")
    return model


def _rebuild_classes(described: dict[str, Any]) -> Array:
    dtype, values = field(described, "dtype", str), field(described, "values", list)
    kind = _CLASS_KINDS.get(dtype)
    if kind is None or len(values) < 2 or any(type(value) is not kind for value in values):
        raise ValueError("classes_ are not two or more of one type")
    if any(not one < other for one, other in pairwise(values)):
        raise ValueError("classes_ are not sorted, or not all different")
    if kind is float and not np.isfinite(values).all():
        raise ValueError("classes_ are not all finite")
    try:
        with np.errstate(over="raise"):
            classes = np.array(values, dtype)
    except (OverflowError, FloatingPointError) as error:
        raise ValueError(f"classes_ are not all of the dtype {dtype}") from error
    if classes.tolist() != values:
        raise ValueError(f"classes_ are not all of the dtype {dtype}")
    return classes


def _rebuild_fitted(
    model: PBPEstimator, header: dict[str, Any], arrays: dict[str, Array], n_outputs: int
) -> None:
    """Undo `_describe_fitted` for a model that knows its parameters, and its classes if any."""
    several = model._likelihood == "gaussian" and n_outputs > 1
    q: dict[str, Any] = {}
    for k, lowest in _ABOVE.items():
        q[k] = (
            _per_target(header, k, n_outputs)
            if several and k in _OF_TARGETS
            else field(header, k, float)
        )
        if not np.all((q[k] > lowest) & (q[k] < math.inf)):
            raise ValueError(f"{k} is {q[k]}")
    n_iter, n_seen = field(header, "n_iter_", int), field(header, "n_samples_seen_", int)
    sizes, weights = field(header, "layer_sizes", list), field(header, "weights_dtype", str)
    if not 2 <= len(sizes) <= len(arrays) or sizes[-1] != n_outputs or weights == "int64":
        kind = "regression" if model._likelihood == "gaussian" else "classification"
        raise ValueError(f"the layers are not those of a {kind} network")
    expected: dict[str, Any] = {f"history_{k}": (t, (n_iter,)) for k, t in _HISTORY.items()}
    if several:
        expected["history_noise_variance"] = ("float64", (n_iter, sizes[-1]))
    of_features = ["x_mean", "x_scale", *({"missing_variance"} & arrays.keys())]
    expected |= {k: ("float64", (sizes[0],)) for k in of_features}
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        expected |= {f"{k}_{i}": (weights, (n_out, n_in + 1)) for k in ("m_w", "v_w")}
        expected |= {f"{k}_{i}": ("float64", (n_out, n_in + 1)) for k in _LAYERED[2:]}
    if {k: (a.dtype.name, a.shape) for k, a in arrays.items()} != expected:
        raise ValueError("the shapes or dtypes of the arrays do not fit together")
    for k, a in arrays.items():
        lowest = 0.0 if k.startswith(("v_w", "x_scale")) else -math.inf
        if a.size == 0 or not (np.isfinite(a) & (a > lowest)).all():
            raise ValueError(f"{k} has values that no fitted model has")
    missing_variance = arrays.get("missing_variance")
    if missing_variance is not None and not {*missing_variance.tolist()} <= {0.0, 1.0}:
        raise ValueError("missing_variance has values that no fitted model has")
    names = _feature_names(header, sizes[0])

    y_mean, y_scale, log_evidence = (q.pop(k) for k in ("y_mean", "y_scale", "log_evidence_"))
    q |= {k: tuple(arrays[f"{k}_{i}"] for i in range(len(sizes) - 1)) for k in _LAYERED}
    standardizer = Standardizer(
        arrays["x_mean"], arrays["x_scale"], y_mean, y_scale, missing_variance
    )
    columns = {k: arrays[f"history_{k}"].tolist() for k in _HISTORY}
    if several:
        columns["noise_variance"] = [tuple(each) for each in columns["noise_variance"]]
    history = [Epoch(*row) for row in zip(*columns.values(), strict=True)]
    model._publish(Posterior(**q), standardizer, history, log_evidence, n_seen)
    model.choice_ = rebuild_choice(header, model)
    model.n_features_in_ = len(arrays["x_mean"])
    if names:
        model.feature_names_in_ = np.array(names, object)


def _per_target(header: dict[str, Any], key: str, n: int) -> FloatArray:
    values = field(header, key, list)
    if len(values) != n or any(type(value) is not float for value in values):
        raise ValueError(f"{key} in the header does not have a number per target")
    return np.array(values)


def _feature_names(header: dict[str, Any], n_features: int) -> list[str]:
    """Return them, or an empty list where the features have none."""
    names: list[str] = field(header, "feature_names_in_", list)
    if len(names) not in (0, n_features) or any(type(name) is not str for name in names):
        raise ValueError("feature_names_in_ does not have one name per feature")
    return names


def _describe_network(model: PBPRegressor | PBPClassifier) -> Parts:
    """Return the header and the arrays of a fitted regressor or classifier."""
    from probprop.estimators.classifier import PBPClassifier

    if isinstance(model, PBPClassifier):
        return _describe_classifier(model)
    return _describe_regressor(model)


def _rebuild_network(
    header: dict[str, Any], arrays: dict[str, Array]
) -> PBPRegressor | PBPClassifier:
    """Undo `_describe_network`; TypeError and ValueError say why that is not possible."""
    if field(header, "class", str) == "PBPClassifier":
        return _rebuild_classifier(header, arrays)
    return _rebuild_regressor(header, arrays)


def _describe_ensemble(model: PBPEnsemble) -> Parts:
    """Return the header and the arrays of a fitted ensemble: those of its members, numbered."""
    described = _describe_unfitted(model, "PBPEnsemble")
    members = [_describe_network(member) for member in model.estimators_]
    header = {
        **described,
        "feature_names_in_": [str(k) for k in getattr(model, "feature_names_in_", ())],
        "members": [header for header, _ in members],
    }
    return header, {f"{i}/{k}": a for i, (_, own) in enumerate(members) for k, a in own.items()}


def _rebuild_ensemble(header: dict[str, Any], arrays: dict[str, Array]) -> PBPEnsemble:
    """Undo `_describe_ensemble`; TypeError and ValueError say why that is not possible."""
    from probprop.estimators.classifier import PBPClassifier
    from probprop.estimators.ensemble import PBPEnsemble
    from probprop.estimators.regressor import PBPRegressor

    model = PBPEnsemble(**field(header, "parameters", dict))
    kind: type[PBPRegressor | PBPClassifier] = PBPRegressor
    if isinstance(model.estimator, dict):
        kind = PBPClassifier if model.estimator.get("class") == "PBPClassifier" else PBPRegressor
        model.estimator = _rebuild_unfitted(model.estimator, kind)
    model._check_parameters()
    check_random_state(model.random_state)

    members = _members(header)
    if any(field(member, "class", str) != kind.__name__ for member in members):
        raise ValueError("a part of the model is of a class that it cannot be made of")
    own: dict[str, dict[str, Array]] = {str(i): {} for i in range(len(members))}
    for key, array in arrays.items():
        i, _, name = key.partition("/")
        if i not in own:
            raise ValueError(f"the array {key[:50]} is of no member")
        own[i][name] = array
    model.estimators_ = [_rebuild_network(*p) for p in zip(members, own.values(), strict=True)]
    first = model.estimators_[0]
    model.n_features_in_ = first.n_features_in_
    for member in model.estimators_:  # only the ensemble knows names
        if member.n_features_in_ != model.n_features_in_ or hasattr(member, "feature_names_in_"):
            raise ValueError("the members do not have the same features")
        if member.posterior_.layer_sizes[-1] != first.posterior_.layer_sizes[-1]:
            raise ValueError("the members do not have the same outputs")
    if isinstance(first, PBPClassifier):
        described = [(member.get("multilabel_"), member.get("classes_")) for member in members]
        if any(other != described[0] for other in described):
            raise ValueError("the members do not have the same classes")
        model.classes_, model.multilabel_ = first.classes_, first.multilabel_
    if names := _feature_names(header, model.n_features_in_):
        model.feature_names_in_ = np.array(names, object)
    return model


def _members(header: dict[str, Any]) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = field(header, "members", list)
    if not members or any(type(member) is not dict for member in members):
        raise ValueError("members in the header are missing or not described")
    return members


def _describe_table_model(model: TableModel) -> Parts:
    """Return the header and the arrays of a model of a table."""
    described, arrays = (
        _describe_ensemble(model.estimator)
        if hasattr(model.estimator, "estimators_")
        else _describe_network(model.estimator)
    )
    known = model.categories
    columns = [
        {"name": k, "kind": kind} | ({"categories": known[k]} if kind == "text" else {})
        for k, kind in model.kinds.items()
    ]
    header: dict[str, Any] = {"class": "TableModel", "target": model.target, "columns": columns}
    header |= {"regressor": described}  # or a classifier: the key is that of old files
    return header, arrays


def _rebuild_table_model(header: dict[str, Any], arrays: dict[str, Array]) -> TableModel:
    """Undo `_describe_table_model`; TypeError and ValueError say why that is not possible."""
    from probprop.table import TableModel  # first: it says what to do where pandas is absent
    from probprop.table.encoding import build_encoder

    described = field(header, "regressor", dict)
    in_ensemble = field(described, "class", str) == "PBPEnsemble"
    estimator = (_rebuild_ensemble if in_ensemble else _rebuild_network)(described, arrays)
    if getattr(estimator, "multilabel_", False):
        raise ValueError("the target is a matrix of labels, not a column of a table")
    target, columns = _targets(header, estimator), field(header, "columns", list)
    if any(type(column) is not dict for column in columns):
        raise ValueError("a column is not described")
    kinds = {field(column, "name", str): field(column, "kind", str) for column in columns}
    if not {*kinds.values()} <= {"number", "boolean", "text"}:
        raise ValueError("a column is of a kind that no model has")
    if len(kinds) < len(columns) or not kinds.keys().isdisjoint(target_names(target)):
        raise ValueError("two columns have the same name")
    texts = [column for column in columns if column["kind"] == "text"]
    categories = {column["name"]: field(column, "categories", list) for column in texts}
    for known in categories.values():
        if not known or any(type(c) is not str for c in known) or len({*known}) < len(known):
            raise ValueError("categories are not different texts")
    if len(kinds) - len(texts) + sum(map(len, categories.values())) != estimator.n_features_in_:
        raise ValueError("the columns are not those that the regressor was fitted on")
    return TableModel(estimator, build_encoder(kinds, categories), list(kinds), target)


def _targets(header: dict[str, Any], estimator: Any) -> str | list[str]:
    """Return the target of a table, or of several the list: as many as the network has outputs."""
    n = getattr(estimator, "n_outputs_", 1)  # a classifier has one target
    if n == 1:
        name: str = field(header, "target", str)
        return name
    targets: list[str] = field(header, "target", list)
    if len(targets) != n or any(type(k) is not str for k in targets) or len({*targets}) < n:
        raise ValueError("the targets are not different columns, one per output")
    return targets


def class_inside(header: dict[str, Any]) -> str:
    """Return the class of what predicts: the model, the estimator of a table, or a member."""
    part = header
    if field(part, "class", str) == "TableModel":
        part = field(part, "regressor", dict)
    if field(part, "class", str) == "PBPEnsemble":
        part = _members(part)[0]
    inside: str = field(part, "class", str)
    return inside


def describe(model: Model) -> Parts:
    """Return the header and the arrays of a fitted model."""
    name = type(model).__name__
    if name not in _DESCRIBE:
        raise TypeError(f"{name} is another class; use pickle")
    return _DESCRIBE[name](model)


_DESCRIBE: dict[str, Callable[[Any], Parts]] = {
    "PBPRegressor": _describe_regressor,
    "PBPClassifier": _describe_classifier,
    "PBPEnsemble": _describe_ensemble,
    "TableModel": _describe_table_model,
}
REBUILD: dict[str, Callable[[dict[str, Any], dict[str, Array]], Model]] = {
    "PBPRegressor": _rebuild_regressor,
    "PBPClassifier": _rebuild_classifier,
    "PBPEnsemble": _rebuild_ensemble,
    "TableModel": _rebuild_table_model,
}

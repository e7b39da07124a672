"""Networks as a JSON header and arrays, and back; nothing here knows of files.

`describe_network` names the parts of a fitted regressor or classifier after its attributes.
`rebuild_network` makes one of parts that may come from anyone: only what the first gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.estimators.base import publish
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_int, check_parameters
from probprop.files.fields import (
    MOST_SAMPLES,
    Parts,
    feature_names,
    field,
    n_samples_seen,
)
from probprop.files.trial import check_scales
from probprop.inference.likelihoods import (
    NOISE_TAILS,
    Gaussian,
    LabelLikelihood,
    Likelihood,
    of_classes,
)
from probprop.inference.noise import noise_network
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.standardize import Standardizer, check_target_scale
from probprop.inference.training import Fitted
from probprop.reference.likelihoods.heavy import LARGEST_TAIL

Network = PBPRegressor | PBPClassifier
KINDS: dict[str, type[Network]] = {kind.__name__: kind for kind in (PBPRegressor, PBPClassifier)}
"""The classes of networks by name."""

_LAYERED = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
_OF_NOISE = ("m_w", "v_w")  # of the network of the noise; the rest of it never changes
_ABOVE = {"alpha_noise": 1.0, "beta_noise": 0.0, "alpha_prior": 1.0, "beta_prior": 0.0}
_ABOVE |= {"y_mean": -math.inf, "y_scale": 0.0, "log_evidence_": -math.inf}
# No data bring a Gamma this far, and beyond the squares of its moments leave the floats.
_BELOW = dict.fromkeys(("alpha_noise", "beta_noise", "alpha_prior", "beta_prior"), 1e110)
# A list each if there are several targets.
_OF_TARGETS = ("alpha_noise", "beta_noise", "y_mean", "y_scale", "tail", "noise_tail_")
_NUMBERS = [np.dtype(code) for code in np.typecodes["AllInteger"] + "efd"]
_CLASS_KINDS: dict[str, type] = {t.name: float if t.kind == "f" else int for t in _NUMBERS}
_CLASS_KINDS |= {"bool": bool, "str": str, "object": str}
_HISTORY = {k: "int64" if t is int else "float64" for k, t in get_type_hints(Epoch).items()}
# noise_variance has a column per target if there are several.


# ---- A fitted network as a header and arrays


def describe_network(model: Network) -> Parts:
    """Return the header and the arrays of a fitted regressor or classifier."""
    described = describe_unfitted(_known(model))
    state = vars(model) | vars(model.posterior_) | vars(model.standardizer_)
    header = {
        **described,
        "feature_names_in_": [str(k) for k in state.get("feature_names_in_", ())],
        "layer_sizes": list(model.posterior_.layer_sizes),
        "weights_dtype": model.posterior_.dtype.name,
        "n_iter_": model.n_iter_,
        "n_samples_seen_": model.n_samples_seen_,
        "mean_sample_weight_": model.mean_sample_weight_,
        **{k: _number_or_list(state[k]) for k in _ABOVE},
        **_describe_tail(model),
        **_describe_classes(model),
    }
    arrays = {f"{k}_{i}": array for k in _LAYERED for i, array in enumerate(state[k])}
    if (network := state["noise_network"]) is not None:
        layers = {k: getattr(network, k) for k in _OF_NOISE}
        arrays |= {f"noise_{k}_{i}": a for k in layers for i, a in enumerate(layers[k])}
        header["noise_layer_sizes_"] = list(network.layer_sizes)
        if model.likelihood_.learns_tail:
            header["noise_tail_"] = _number_or_list(network.tail)
    arrays |= {"x_mean": state["x_mean"], "x_scale": state["x_scale"]}
    if state["missing_variance"] is not None:
        arrays["missing_variance"] = state["missing_variance"]
    for k, dtype in _HISTORY.items():
        arrays[f"history_{k}"] = np.array([getattr(epoch, k) for epoch in model.history_], dtype)
    return header, arrays


def _describe_tail(model: Network) -> dict[str, Any]:
    """Return the tails of the noise, which files of other models do not have."""
    learned = model.likelihood_.learns_tail
    return {"tail": _number_or_list(model.posterior_.tail)} if learned else {}


def _number_or_list(value: float | FloatArray) -> float | list[float]:
    """Return a quantity of each target as JSON holds it: a number if there is one target."""
    values: list[float] = np.atleast_1d(value).tolist()
    return values[0] if len(values) == 1 else values


def _describe_classes(model: Network) -> dict[str, Any]:
    if not hasattr(model, "classes_"):
        return {}
    classes, dtype = model.classes_, model.classes_.dtype
    name = "str" if dtype.kind == "U" else dtype.name
    described = {"dtype": name, "values": classes.tolist()}
    return {"classes_": described, "multilabel_": model.multilabel_}


def describe_unfitted(model: BaseEstimator) -> dict[str, Any]:
    """Return the class and the parameters of an estimator."""
    parameters = model.get_params(deep=False)
    described = {k: plain(value) for k, value in parameters.items()}
    return {"class": type(model).__name__, "parameters": described}


def plain(value: Any) -> Any:
    """Return a parameter as JSON holds it: a tuple as a mapping, a RandomState as null."""
    if isinstance(value, BaseEstimator):
        return describe_unfitted(_known(value))
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [plain(item) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    return None if isinstance(value, np.random.RandomState) else value


def _known(model: BaseEstimator) -> BaseEstimator:
    if type(model).__name__ not in KINDS:
        raise TypeError(f"{type(model).__name__} is another class; use pickle")
    return model


# ---- And back


def parameters_of(kind: type[BaseEstimator], header: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator of this class, all of which the header must have."""
    parameters: dict[str, Any] = field(header, "parameters", dict)
    if differing := parameters.keys() ^ kind().get_params(deep=False).keys():
        raise ValueError(f"the parameter {min(differing)[:50]} is missing or unexpected")
    return {**parameters}


def rebuild_unfitted(header: dict[str, Any]) -> Network:
    """Undo `describe_unfitted` of a regressor or classifier."""
    name = field(header, "class", str)
    if name not in KINDS:
        raise ValueError("a part of the model has a class that it cannot have")
    model = KINDS[name](**parameters_of(KINDS[name], header))
    for name in ("hidden_layer_sizes", "noise_layer_sizes"):
        if isinstance(sizes := getattr(model, name), dict):
            setattr(model, name, tuple(field(sizes, "tuple", list)))
    check_parameters(model)
    check_random_state(model.random_state)
    return model


def rebuild_network(header: dict[str, Any], arrays: dict[str, Array]) -> Network:
    """Undo `describe_network`; TypeError and ValueError say why that is not possible."""
    model = rebuild_unfitted(header)
    likelihood = _rebuild_likelihood(model, header)
    model.likelihood_ = likelihood
    fitted, history = _rebuild_fitted(likelihood, header, arrays)
    mean_weight = field(header, "mean_sample_weight_", float)
    if not 0.0 < mean_weight < math.inf:
        raise ValueError(f"mean_sample_weight_ is {mean_weight}")
    publish(model, fitted, history, mean_weight)
    model.n_features_in_ = len(fitted.standardizer.x_mean)
    if names := feature_names(header, model.n_features_in_):
        model.feature_names_in_ = np.array(names, object)
    return model


def _rebuild_likelihood(model: Network, header: dict[str, Any]) -> Gaussian | LabelLikelihood:
    if isinstance(model, PBPRegressor):
        sizes = field(header, "layer_sizes", list)
        check_int("the last of layer_sizes", sizes[-1] if sizes else None, 1)
        return NOISE_TAILS[model.noise_tail](int(sizes[-1]), model.noise_shape, model.noise_rate)
    multilabel = field(header, "multilabel_", bool)
    classes = _rebuild_classes(field(header, "classes_", dict))
    if multilabel and classes.tolist() != list(range(len(classes))):
        raise ValueError("classes_ are not the columns of a matrix of labels")
    return of_classes(classes, multilabel=multilabel)


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
    likelihood: Likelihood, header: dict[str, Any], arrays: dict[str, Array]
) -> tuple[Fitted, list[Epoch]]:
    n_outputs = likelihood.n_outputs
    several = likelihood.learns_noise and n_outputs > 1
    q: dict[str, Any] = {}
    for k, lowest in _ABOVE.items():
        q[k] = _of_each_target(header, k, n_outputs if several else 1)
        if not np.all((q[k] > lowest) & (q[k] < _BELOW.get(k, math.inf))):
            raise ValueError(f"{k} is {_number_or_list(q[k])}")
    if likelihood.learns_tail:
        q["tail"] = _rebuild_tail(header, "tail", n_outputs)
    found = tuple(_number_or_list(q[k]) for k in _OF_TARGETS[:4])
    if not likelihood.learns_noise and found != (*likelihood.noise_prior, 0.0, 1.0):
        raise ValueError("the noise or the scale of the labels is not that of a classifier")
    n_iter, n_seen = field(header, "n_iter_", int), n_samples_seen(header)
    sizes, weights = field(header, "layer_sizes", list), field(header, "weights_dtype", str)
    if not 2 <= len(sizes) <= len(arrays) or sizes[-1] != n_outputs or weights == "int64":
        raise ValueError(f"the layers are not those of a {likelihood.task} network")
    noise_sizes = _rebuild_noise_sizes(header, sizes, arrays)
    expected = _expected_arrays(arrays, sizes, weights, n_iter, n_outputs if several else 1)
    for i, shape in enumerate(_shapes(noise_sizes)):
        expected |= {f"noise_{k}_{i}": (weights, shape) for k in _OF_NOISE}
    _check_arrays(arrays, expected)

    scale = {k: q.pop(k) for k in ("y_mean", "y_scale")}
    log_evidence = q.pop("log_evidence_").item()
    q |= {k: q[k].item() for k in ("alpha_prior", "beta_prior")}
    q |= {k: tuple(arrays[f"{k}_{i}"] for i in range(len(sizes) - 1)) for k in _LAYERED}
    if noise_sizes:
        n_layers = len(noise_sizes) - 1
        m_w, v_w = (tuple(arrays[f"noise_{k}_{i}"] for i in range(n_layers)) for k in _OF_NOISE)
        learned = likelihood.learns_tail
        tail = _rebuild_tail(header, "noise_tail_", n_outputs) if learned else None
        q["noise_network"] = noise_network(m_w, v_w, tail)
    missing_variance = arrays.get("missing_variance")
    standardizer = Standardizer(
        arrays["x_mean"], arrays["x_scale"], **scale, missing_variance=missing_variance
    )
    check_target_scale(standardizer.y_scale)
    check_scales("X", standardizer.x_mean, standardizer.x_scale)
    check_scales("y", standardizer.y_mean, standardizer.y_scale)
    columns = {k: arrays[f"history_{k}"].tolist() for k in _HISTORY}
    if several:
        columns["noise_variance"] = [tuple(each) for each in columns["noise_variance"]]
    history = [Epoch(*row) for row in zip(*columns.values(), strict=True)]
    return Fitted(Posterior(**q), standardizer, history[-1], log_evidence, n_seen), history


def _rebuild_tail(header: dict[str, Any], key: str, n_outputs: int) -> FloatArray:
    tail = _of_each_target(header, key, n_outputs)
    if not np.all((tail >= 0.0) & (tail <= LARGEST_TAIL)):
        raise ValueError(f"{key} is {_number_or_list(tail)}")
    return tail


def _rebuild_noise_sizes(
    header: dict[str, Any], sizes: list[int], arrays: dict[str, Array]
) -> list[int]:
    """Return the layers of the network of the noise, none if there is no such network."""
    if "noise_layer_sizes_" not in header:
        return []
    found: list[int] = field(header, "noise_layer_sizes_", list)
    if not 2 <= len(found) <= len(arrays) or [found[0], found[-1]] != [sizes[0], sizes[-1]]:
        raise ValueError("the layers of the network of the noise do not fit those of the mean")
    return found


def _shapes(sizes: list[int]) -> list[tuple[int, int]]:
    return [(n_out, n_in + 1) for n_in, n_out in pairwise(sizes)]


def _expected_arrays(
    arrays: dict[str, Array], sizes: list[int], weights: str, n_iter: int, n_noise: int
) -> dict[str, Any]:
    """Return dtype and shape of the arrays of a network with these layers."""
    expected: dict[str, Any] = {f"history_{k}": (t, (n_iter,)) for k, t in _HISTORY.items()}
    if n_noise > 1:
        expected["history_noise_variance"] = ("float64", (n_iter, n_noise))
    of_features = ["x_mean", "x_scale", *({"missing_variance"} & arrays.keys())]
    expected |= {k: ("float64", (sizes[0],)) for k in of_features}
    for i, shape in enumerate(_shapes(sizes)):
        expected |= {f"{k}_{i}": (weights, shape) for k in ("m_w", "v_w")}
        expected |= {f"{k}_{i}": ("float64", shape) for k in _LAYERED[2:]}
    return expected


def _check_arrays(arrays: dict[str, Array], expected: dict[str, Any]) -> None:
    """Refuse arrays that no fitted model has."""
    if {k: (a.dtype.name, a.shape) for k, a in arrays.items()} != expected:
        raise ValueError("the shapes or dtypes of the arrays do not fit together")
    variance = arrays.get("missing_variance")
    for k, a in arrays.items():
        if a.dtype.kind == "i" and not ((a >= 0) & (a <= MOST_SAMPLES)).all():
            raise ValueError(f"{k} has values that no fitted model has")
        lowest = 0.0 if k.startswith("x_scale") else -math.inf
        if k.startswith(("v_w", "noise_v_w")):
            lowest = 0.99 * float(np.finfo(a.dtype).tiny)
        usual = np.isfinite(a)
        if k.startswith("v_hat_nat"):  # a precision, in units of the weights
            usual = np.abs(a) < 1.0 / np.finfo(expected["m_w_0"][0]).tiny
        if k == "x_scale" and variance is not None:  # a column without any value has no scale
            usual |= (a == math.inf) & (variance == 0.0)
        if a.size == 0 or not (usual & (a > lowest)).all():
            raise ValueError(f"{k} has values that no fitted model has")
    if variance is not None and not {*variance.tolist()} <= {0.0, 1.0}:
        raise ValueError("missing_variance has values that no fitted model has")


def _of_each_target(header: dict[str, Any], key: str, n: int) -> FloatArray:
    """Return a quantity that the header has once, or once per target, (n,)."""
    if n == 1 or key not in _OF_TARGETS:
        return np.array([field(header, key, float)])
    values = field(header, key, list)
    if len(values) != n or any(type(value) is not float for value in values):
        raise ValueError(f"{key} in the header does not have a number per target")
    return np.array(values)

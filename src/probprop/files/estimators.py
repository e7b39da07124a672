"""Which functions describe and rebuild which class of estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from probprop._types import Array
from probprop.files.cross_validated import (
    CV_KINDS,
    describe_cross_validated,
    rebuild_cross_validated,
)
from probprop.files.ensembles import describe_ensemble, rebuild_ensemble
from probprop.files.fields import Parts, field
from probprop.files.networks import KINDS, describe_network, rebuild_network
from probprop.files.trial import check_answers

_DESCRIBE: dict[str, Callable[[Any], Parts]] = {
    **dict.fromkeys(KINDS, describe_network),
    **dict.fromkeys(CV_KINDS, describe_cross_validated),
    "PBPEnsemble": describe_ensemble,
}
_REBUILD: dict[str, Callable[[dict[str, Any], dict[str, Array]], Any]] = {
    **dict.fromkeys(KINDS, rebuild_network),
    **dict.fromkeys(CV_KINDS, rebuild_cross_validated),
    "PBPEnsemble": rebuild_ensemble,
}
OF_MEMBERS = ("PBPEnsemble", *CV_KINDS)
"""Estimators that are made of networks."""


def describe_estimator(model: Any) -> Parts:
    """Return the header and the arrays of a fitted estimator."""
    name = type(model).__name__
    if name not in _DESCRIBE:
        raise TypeError(f"{name} is another class; use pickle")
    return _DESCRIBE[name](model)


def rebuild_estimator(header: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Undo `describe_estimator`; TypeError and ValueError say why that is not possible."""
    name = field(header, "class", str)
    if name not in _REBUILD:
        raise ValueError("a part of the model has a class that it cannot have")
    model = _REBUILD[name](header, arrays)
    check_answers(model)
    return model

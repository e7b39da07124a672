"""Ensembles as a JSON header and arrays, and back: those of their members, numbered."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from probprop._types import Array
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.members import check_ensemble, member_kind
from probprop.files.fields import Parts, feature_names, field, joined, parted
from probprop.files.networks import (
    describe_network,
    describe_unfitted,
    parameters_of,
    rebuild_network,
    rebuild_unfitted,
)


def describe_ensemble(model: PBPEnsemble) -> Parts:
    """Return the header and the arrays of a fitted ensemble: those of its members, numbered."""
    members = [describe_network(member) for member in model.estimators_]
    header = {
        **describe_unfitted(model),
        "feature_names_in_": [str(k) for k in getattr(model, "feature_names_in_", ())],
        "members": [header for header, _ in members],
    }
    return header, joined({str(i): own for i, (_, own) in enumerate(members)})


def rebuild_ensemble(header: dict[str, Any], arrays: dict[str, Array]) -> PBPEnsemble:
    """Undo `describe_ensemble`; TypeError and ValueError say why that is not possible."""
    model = PBPEnsemble(**parameters_of(PBPEnsemble, header))
    members = members_in(header)
    if isinstance(model.estimator, dict):
        model.estimator = rebuild_unfitted(model.estimator)
    check_ensemble(model)
    check_random_state(model.random_state)

    kind = type(member_kind(model)).__name__
    if any(field(member, "class", str) != kind for member in members):
        raise ValueError("a part of the model has a class that it cannot have")
    own = parted(arrays, [str(i) for i in range(len(members))])
    model.estimators_ = [rebuild_network(*p) for p in zip(members, own.values(), strict=True)]
    first = model.estimators_[0]
    model.n_features_in_, model.likelihood_ = first.n_features_in_, first.likelihood_
    for member in model.estimators_:  # only the ensemble keeps the names
        if member.n_features_in_ != model.n_features_in_ or hasattr(member, "feature_names_in_"):
            raise ValueError("the members do not have the same features")
        if member.likelihood_.n_outputs != first.likelihood_.n_outputs:
            raise ValueError("the members do not have the same outputs")
    check_same_classes(members)
    if names := feature_names(header, model.n_features_in_):
        model.feature_names_in_ = np.array(names, object)
    return model


def check_same_classes(members: list[dict[str, Any]]) -> None:
    """Refuse members with classes of their own."""
    described = [(member.get("multilabel_"), member.get("classes_")) for member in members]
    if any(other != described[0] for other in described):
        raise ValueError("the members do not have the same classes")


def members_in(header: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the headers of the members of an ensemble."""
    members: list[dict[str, Any]] = field(header, "members", list)
    if not members or any(type(member) is not dict for member in members):
        raise ValueError("members in the header are missing or not described")
    return members

"""The description of a choice of epochs and memory in the header of a model file, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from probprop.estimators.base import PBPEstimator
from probprop.estimators.choice import Choice, Curve
from probprop.estimators.validation import check_int, check_memory
from probprop.files.fields import field

_CHOICE = {"n_epochs": int, "gain": float, "gain_error": float, "n_rows": int}


def describe_choice(choice: Choice) -> dict[str, Any]:
    """Return a choice as JSON holds it: plain numbers, and a tuple as a mapping."""
    plain = {k: kind(getattr(choice, k)) for k, kind in _CHOICE.items()}
    curves = [_describe_curve(curve) for curve in choice.curves]
    return {**plain, "memory": _described_memory(choice.memory), "curves": curves}


def _describe_curve(curve: Curve) -> dict[str, Any]:
    tuples = {k: {"tuple": list(getattr(curve, k))} for k in ("n_epochs", "log_likelihood")}
    return {"memory": _described_memory(curve.memory), **tuples}


def _described_memory(memory: float | None) -> float | int | None:
    return memory if memory is None or isinstance(memory, int) else float(memory)


def rebuild_choice(header: dict[str, Any], model: PBPEstimator) -> Choice:
    """Undo `describe_choice`; in older files the parameters are the choice."""
    if "choice_" not in header and not isinstance(model.n_epochs, str):
        return Choice(model.n_epochs, None)
    described = field(header, "choice_", dict)
    chosen = {k: field(described, k, t) for k, t in _CHOICE.items()}
    check_int("n_epochs of choice_", chosen["n_epochs"], 1)
    if not math.isfinite(chosen["gain"]) or not 0.0 <= chosen["gain_error"] < math.inf:
        raise ValueError("the gain of choice_ is one that no choice has")
    curves = tuple(_rebuild_curve(curve) for curve in field(described, "curves", list))
    return Choice(memory=_chosen_memory(described), curves=curves, **chosen)


def _rebuild_curve(described: Any) -> Curve:
    if type(described) is not dict:
        raise ValueError("a curve of choice_ is not described")
    epochs, scores = (
        field(field(described, k, dict), "tuple", list) for k in ("n_epochs", "log_likelihood")
    )
    kinds = [type(value) for value in (*epochs, *scores)]
    if kinds != [int] * len(epochs) + [float] * len(epochs) or not np.isfinite(scores).all():
        raise ValueError("a curve of choice_ has values that no curve has")
    return Curve(_chosen_memory(described), tuple(epochs), tuple(scores))


def _chosen_memory(described: dict[str, Any]) -> float | None:
    memory = described.get("memory")
    check_memory(memory)
    if isinstance(memory, str):
        raise ValueError(f"the memory of choice_ is {memory[:50]}")
    return memory

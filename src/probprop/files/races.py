"""Candidates, and how they were compared, in the header of a model file, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from probprop.estimators.cv.policy import Candidate
from probprop.estimators.cv.search import CandidateCurve, CVChoice
from probprop.estimators.validation import check_int
from probprop.files.fields import field

_CURVE: dict[str, type] = {"n_epochs": int, "calibrated": float, "raw": float, "factor": float}


def describe_candidates(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return candidates as JSON holds them."""
    return [_describe_candidate(candidate) for candidate in candidates]


def rebuild_candidates(described: list[Any]) -> list[Candidate]:
    """Undo `describe_candidates`."""
    return [_rebuild_candidate(each) for each in described]


def _describe_candidate(candidate: Candidate) -> dict[str, Any]:
    n_bins, memory, power = candidate.n_bins, candidate.memory, candidate.power
    return {
        "n_bins": None if n_bins is None else int(n_bins),
        "hidden": list(candidate.layers),
        "memory": None if memory is None else float(memory),
        "power": None if power is None else float(power),
        "noise": candidate.noise,
    }


def _rebuild_candidate(described: Any) -> Candidate:
    names = {"n_bins", "hidden", "memory", "power", "noise"}
    if type(described) is not dict or described.keys() != names:
        raise ValueError("a candidate is not described")
    hidden = field(described, "hidden", list)
    for n_units in hidden:  # before they are laid out as an array
        check_int("hidden of a candidate", n_units, 1)
    power = None if described["power"] is None else field(described, "power", float)
    return Candidate(
        described["n_bins"], tuple(hidden), described["memory"], power, described["noise"]
    )


def describe_race(choice: CVChoice) -> dict[str, Any]:
    """Return what was compared and what was chosen, as JSON holds it."""
    curves = [_describe_curve(curve) for curve in choice.curves]
    how = {"best": choice.best, "n_epochs": choice.n_epochs, "ended": choice.ended}
    return {**how, "curves": curves}


def rebuild_race(described: dict[str, Any]) -> CVChoice:
    """Undo `describe_race`."""
    curves = tuple(_rebuild_curve(curve) for curve in field(described, "curves", list))
    best, n_epochs = field(described, "best", int), field(described, "n_epochs", int)
    # On a cluster the networks of all rows may make other epochs than those of the sample.
    if not 0 <= best < len(curves) or n_epochs < 1:
        raise ValueError("the best of choice_ is none of its candidates")
    return CVChoice(curves, best, n_epochs, field(described, "ended", str))


def _describe_curve(curve: CandidateCurve) -> dict[str, Any]:
    points = {k: [kind(value) for value in getattr(curve, k)] for k, kind in _CURVE.items()}
    candidate = _describe_candidate(curve.candidate)
    return {"candidate": candidate, "outcome": curve.outcome, **points}


def _rebuild_curve(described: Any) -> CandidateCurve:
    if type(described) is not dict:
        raise ValueError("a curve of choice_ is not described")
    points = {k: field(described, k, list) for k in _CURVE}
    n = len(points["n_epochs"])
    for k, kind in _CURVE.items():
        same = len(points[k]) == n and all(type(value) is kind for value in points[k])
        if not same or not np.isfinite(points[k]).all():
            raise ValueError(f"{k} of a curve of choice_ has values that no curve has")
    n_epochs, factor = points["n_epochs"], points["factor"]
    if sorted({*n_epochs}) != n_epochs or min([*n_epochs, *factor], default=1) <= 0:
        raise ValueError("a curve of choice_ has values that no curve has")
    candidate = _rebuild_candidate(described.get("candidate"))
    outcome = field(described, "outcome", str)
    return CandidateCurve(candidate, **{k: tuple(v) for k, v in points.items()}, outcome=outcome)

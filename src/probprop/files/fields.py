"""Read parts of a header that may come from anyone, only if they have the right type."""

from __future__ import annotations

from typing import Any

from probprop._types import Array

Parts = tuple[dict[str, Any], dict[str, Array]]
"""The JSON header and the arrays of a model."""


MOST_SAMPLES = 2**53
"""More rows, or passes over them, than any model has seen: counts are exact as floats."""


def field(mapping: dict[str, Any], key: str, kind: type) -> Any:
    """Return an entry of exactly this type (a bool is no int)."""
    if type(mapping.get(key)) is not kind:
        raise ValueError(f"{key} in the header is missing or not of type {kind.__name__}")
    return mapping[key]


def n_samples_seen(header: dict[str, Any]) -> int:
    """Return how many rows a model has seen."""
    n: int = field(header, "n_samples_seen_", int)
    if not 1 <= n <= MOST_SAMPLES:
        raise ValueError(f"n_samples_seen_ is {str(n)[:30]}")
    return n


def feature_names(header: dict[str, Any], n_features: int) -> list[str]:
    """Return the names of the features, or an empty list if they have none."""
    names: list[str] = field(header, "feature_names_in_", list)
    if len(names) not in (0, n_features) or any(type(name) is not str for name in names):
        raise ValueError("feature_names_in_ does not have one name per feature")
    return names


def joined(parts: dict[str, dict[str, Array]]) -> dict[str, Array]:
    """Return the arrays of several parts under one roof: those of part a are "a/...".

    Examples
    --------
    >>> joined({"0": {"x": 1}, "1": {"y/z": 2}})
    {'0/x': 1, '1/y/z': 2}
    """
    return {f"{part}/{k}": a for part, own in parts.items() for k, a in own.items()}


def parted(arrays: dict[str, Array], parts: list[str]) -> dict[str, dict[str, Array]]:
    """Undo `joined`; a part may have no arrays.

    Examples
    --------
    >>> parted({"0/x": 1, "1/y/z": 2}, ["0", "1", "2"])
    {'0': {'x': 1}, '1': {'y/z': 2}, '2': {}}
    """
    own: dict[str, dict[str, Array]] = {part: {} for part in parts}
    for key, array in arrays.items():
        part, _, name = key.partition("/")
        if part not in own:
            raise ValueError(f"the array {key[:50]} belongs to no part of the model")
        own[part][name] = array
    return own

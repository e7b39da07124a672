"""Read parts of a header that may come from anyone, only if they have the right type."""

from __future__ import annotations

from typing import Any

from probprop._types import Array

Parts = tuple[dict[str, Any], dict[str, Array]]
"""The JSON header and the arrays of a model."""


def field(mapping: dict[str, Any], key: str, kind: type) -> Any:
    """Return an entry of exactly this type (a bool is no int)."""
    if type(mapping.get(key)) is not kind:
        raise ValueError(f"{key} in the header is missing or not of type {kind.__name__}")
    return mapping[key]


def feature_names(header: dict[str, Any], n_features: int) -> list[str]:
    """Return the names of the features, or an empty list if they have none."""
    names: list[str] = field(header, "feature_names_in_", list)
    if len(names) not in (0, n_features) or any(type(name) is not str for name in names):
        raise ValueError("feature_names_in_ does not have one name per feature")
    return names

"""The kind of a fitted model: regressor or classifier, one network or several."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

from probprop._types import Array, FloatArray
from probprop.distributions.power import BoxCox


def classes_of(model: Any) -> Array | None:
    """Return the classes of a fitted classifier, sorted; None for a regressor."""
    return model.classes_ if is_classifier(model) else None


def networks_of(model: Any) -> list[Any]:
    """Return the networks of a cross-validated model, or a single network itself."""
    return getattr(model, "estimators_", [model])


def is_cross_validated(model: Any) -> bool:
    """Whether a fitted model was selected and calibrated by cross-validation."""
    return hasattr(model, "calibration_")


def transformation_of(model: Any) -> BoxCox | None:
    """Return the transformation of the targets of a fitted model, or None."""
    return getattr(getattr(model, "calibration_", None), "transformation", None)


def column_moments(model: Any) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of every feature, as the model measured them.

    The standard deviation of a constant feature may be infinite.
    """
    groups = getattr(model, "groups_", [])
    encodings = [group.encoding for group in groups]
    raw = next((i for i, encoding in enumerate(encodings) if encoding is None), 0)
    if groups and (encoding := encodings[raw]) is not None:
        return encoding.mean, encoding.scale
    networks = networks_of(model)
    standardizer = networks[raw * len(networks) // max(1, len(groups))].standardizer_
    return standardizer.x_mean, standardizer.x_scale

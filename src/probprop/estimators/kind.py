"""What a model is, asked of the model itself: of numbers or classes, one network or several.

Whoever shows, scores or saves any of the estimators asks here, and scikit-learn's
`is_classifier`, instead of comparing types.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

from probprop._types import Array


def classes_of(model: Any) -> Array | None:
    """Return the classes of a fitted classifier, sorted; None for a regressor."""
    return model.classes_ if is_classifier(model) else None


def members(model: Any) -> list[Any]:
    """Return the networks of a fitted ensemble; an empty list for a single network."""
    return getattr(model, "estimators_", [])


def offers_student_t(model: Any) -> bool:
    """Whether the predictive can be a Student-t: a single network that predicts numbers."""
    return not is_classifier(model) and not members(model)

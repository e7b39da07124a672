"""Are the probabilities of classes honest? Confidence against the share that is right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from probprop._types import FloatArray


@dataclass(frozen=True)
class ClassVerdict:
    """The judgement on the probabilities of classes.

    Parameters
    ----------
    n : int
        Rows.
    n_right : int
        Rows whose most probable class is right.
    confidence : float
        Its mean probability.
    low, high : int
        How many are right, give or take chance, where probabilities are honest.
    """

    n: int
    n_right: int
    confidence: float
    low: int
    high: int

    @property
    def honest(self) -> bool:
        """Whether chance explains the difference between confidence and accuracy."""
        return self.low <= self.n_right <= self.high

    def __str__(self) -> str:
        """Say it in a sentence or two."""
        text = (
            f"The predicted classes have a probability of {100 * self.confidence:.1f} % on "
            f"average. Give or take chance, honest probabilities are right in {self.low:,} to "
            f"{self.high:,}"
        )
        if self.n_right < self.low:
            return text + ": they are too sure here. A smaller memory or more rows usually help."
        if self.n_right > self.high:
            return text + ": they are more cautious here than they need be."
        return text + ": these rows give no reason to doubt them."

    def as_dict(self) -> dict[str, Any]:
        """Return it in values of JSON."""
        return {"honest": self.honest, "words": str(self), **vars(self)}


def class_verdict(n_right: int, confidence: FloatArray) -> ClassVerdict:
    """Judge whether chance explains the difference between confidence and accuracy.

    Parameters
    ----------
    n_right : int
        Rows whose most probable class is right.
    confidence : ndarray of shape (n,)
        Its probability in each row.

    Examples
    --------
    >>> import numpy as np
    >>> class_verdict(60, np.full(100, 0.9)).honest
    False
    """
    expected = float(confidence.sum())
    by_chance = 1.96 * math.sqrt(float((confidence * (1.0 - confidence)).clip(0.0).sum()))
    low = max(0, math.floor(expected - by_chance))
    high = min(len(confidence), math.ceil(expected + by_chance))
    return ClassVerdict(len(confidence), n_right, float(confidence.mean()), low, high)

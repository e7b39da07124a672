"""What to measure next: to learn a function, or to find where it is best.

`ActiveLearner` chooses rows of a pool from which a model learns most. `expected_improvement`,
`upper_confidence_bound` and `thompson` score points by how good their target may be;
`best_in_pool` finds the highest score among rows.
"""

from probprop.active.acquisition import (
    Acquisition,
    best_in_pool,
    expected_improvement,
    thompson,
    upper_confidence_bound,
)
from probprop.active.learner import ActiveLearner

__all__ = [
    "Acquisition",
    "ActiveLearner",
    "best_in_pool",
    "expected_improvement",
    "thompson",
    "upper_confidence_bound",
]

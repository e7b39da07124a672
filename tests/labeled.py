"""What the tests of PBPClassifier share; the data are fixtures of conftest.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from probprop import PBPClassifier

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""X and y to fit, then to test, in the order of `train_test_split`."""


def halves(load: Any) -> Split:
    """Load a set of scikit-learn, half of it to test."""
    X, y = load(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)


def small(**parameters: Any) -> PBPClassifier:
    """Return a classifier that is fitted in no time."""
    return PBPClassifier((8,), **{"n_epochs": 5, "random_state": 0} | parameters)

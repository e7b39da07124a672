"""The fixed splits of the literature, and the toy data."""

from __future__ import annotations

import numpy as np
import pytest

from probprop_lab import datasets
from probprop_lab.datasets.registry import SOURCES


@pytest.mark.parametrize("name", datasets.NAMES[:-1])
def test_the_splits_match_the_literature(name: str) -> None:
    n = SOURCES[name].shape[0]
    random = np.random.RandomState(1)
    found = datasets.splits(name)
    assert len(found) == (5 if name == "protein" else 20)
    for train, test in found:
        p = random.choice(range(n), n, replace=False)
        np.testing.assert_array_equal(train, p[: round(0.9 * n)])
        np.testing.assert_array_equal(test, p[round(0.9 * n) :])


def test_the_split_of_year_is_the_official_one() -> None:
    [(train, test)] = datasets.splits("year_prediction_msd")
    np.testing.assert_array_equal(train, np.arange(463_715))
    np.testing.assert_array_equal(test, np.arange(463_715, 515_345))


def test_the_toy_data_are_a_cubic_with_noise_of_3() -> None:
    X, y = datasets.toy_cubic(20_000, random_state=0)
    assert X.min() < -3.99
    assert X.max() > 3.99
    assert np.abs(X).max() <= 4
    assert np.std(y - X[:, 0] ** 3) == pytest.approx(3, rel=0.02)
    np.testing.assert_array_equal(datasets.toy_cubic(5, 7)[1], datasets.toy_cubic(5, 7)[1])
    assert (datasets.toy_cubic()[1] != datasets.toy_cubic()[1]).all()

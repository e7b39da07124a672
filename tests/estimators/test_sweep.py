"""Many random parameters on real data: no fit may end in a prediction that is not a number."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_linnerud

from probprop import PBPRegressor
from probprop_lab import datasets

N_FITS = 500
N_ROWS = 120  # of a set, for one fit
NAMES = ["boston_housing", "concrete", "energy", "naval_propulsion", "wine_red", "yacht"]


def real_sets() -> list[tuple[np.ndarray, np.ndarray]]:
    """The sets of scikit-learn, and the paper's if they are here."""
    linnerud = load_linnerud()
    found = [load_diabetes(return_X_y=True), (linnerud.data, linnerud.target[:, 0])]
    here = [datasets.load(name) for name in NAMES if datasets.where(name) is not None]
    return [*found, *((data.X, data.y) for data in here)]


@pytest.mark.parametrize("part", range(5))
def test_no_parameters_give_a_prediction_that_is_not_a_number(part):
    random = np.random.RandomState(part)
    sets = real_sets()
    for _ in range(N_FITS // 5):
        X, y = sets[random.randint(len(sets))]
        rows = random.permutation(len(y))
        train, test = rows[: min(N_ROWS, len(y) - 5)], rows[-200:]
        settings = {
            "hidden_layer_sizes": tuple(random.randint(1, 21, size=random.randint(5))),
            "n_epochs": int(np.exp(random.uniform(0.0, np.log(150.0)))),
            "evidence_cap": [None, 1.0, *np.exp(random.uniform(0.0, np.log(200.0), size=4))][
                random.randint(6)
            ],
            "dtype": ["float64", "float32"][random.randint(2)],
            "random_state": random.randint(2**31),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of undone updates
            model = PBPRegressor(**settings).fit(X[train], y[train])
        p = model.predict_distribution(X[test])
        ok = np.isfinite(p.mean) & np.isfinite(p.std) & (p.std > 0.0)
        assert ok.all(), settings
        assert np.isfinite(p.logpdf(y[test])).all(), settings
        assert np.abs(p.mean - y.mean()).max() < 1e3 * np.ptp(y), settings

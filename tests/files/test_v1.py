"""Model files of format 1, which load for ever, with what they predicted when they were written.

``python tests/files/test_v1.py`` wrote them. They are never written again: if a change does not
load them, it is the change that needs a default for what they lack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose

from probprop import (
    Candidate,
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
    load,
)
from probprop.table import fit_table_model

FOLDER = Path(__file__).with_name("v1")
SAMPLES = np.array([[0.0, 1.0], [0.5, -20.0], [-1.5, 7.5], [30.0, 0.0]])
FRAME = pd.DataFrame(
    {
        "size": ["S", "L", "M", "S", None, "L"] * 6,
        "day": [f"2024-{i % 12 + 1:02}-{i % 28 + 1:02}" for i in range(36)],
        "new": [True, False, False] * 12,
        "x": np.arange(36) / 6.0,
    }
)
NAMES = ("regressor", "classifier", "regressor-cv", "classifier-cv", "table")


def fitted() -> dict[str, Any]:
    """Return a small model of each kind."""
    random = RandomState(0)
    X = random.standard_normal((60, 2)) * [1.0, 10.0]
    y = X[:, 0] + np.exp(0.1 * X[:, 1]) * random.standard_normal(60)
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    usual: dict[str, Any] = {"n_epochs": 3, "random_state": 0}
    tail: dict[str, Any] = {"noise": "input", "noise_tail": "heavy"}
    cv: dict[str, Any] = {"cv": 2, "budget": "fast", "random_state": 0, "missing": "marginalize"}
    cv["dtype"] = "float64"
    networks: dict[str, Any] = {
        "regressor": PBPRegressor(4, **tail, **usual).fit(X, np.column_stack([y, y**2])),
        "classifier": PBPClassifier((3, 2), dtype="float32", **usual).fit(X, labels),
        "regressor-cv": PBPRegressorCV(candidates=[Candidate(4, 3, 10.0, 0.5, "input")], **cv).fit(
            X, np.exp(y)
        ),
        "classifier-cv": PBPClassifierCV(candidates=[Candidate(3, 3)], **cv).fit(X, labels),
    }
    frame = FRAME.assign(y=FRAME["x"] + FRAME["new"])
    estimator = PBPRegressor(3, missing="marginalize", **usual)
    return networks | {"table": fit_table_model(frame, "y", estimator=estimator)}


def answers(name: str, model: Any) -> np.ndarray:
    predicted = model.predict_distribution(FRAME[:7] if name == "table" else SAMPLES)
    names = ["proba"] if hasattr(predicted, "proba") else ["mean", "epistemic_std", "std"]
    return np.array([getattr(predicted, k) for k in names])


@pytest.mark.parametrize("name", NAMES)
def test_files_of_format_1_load_and_predict_the_same(name: str) -> None:
    with np.load(FOLDER / "predictions.npz") as expected:
        # Processors round single precision in different places.
        rtol = 1e-5 if name == "classifier" else 1e-12
        assert_allclose(answers(name, load(FOLDER / f"{name}.pbp")), expected[name], rtol=rtol)


if __name__ == "__main__":
    models = fitted()
    for name, model in models.items():
        model.save(FOLDER / f"{name}.pbp")
    np.savez(FOLDER / "predictions.npz", **{k: answers(k, model) for k, model in models.items()})

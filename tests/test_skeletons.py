"""The Python of docs/skeletons.md, as if it had been copied into the package."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.prediction import predictive

PAGE = Path(__file__).parents[1] / "docs" / "skeletons.md"
HOMES = (
    "probprop.reference.unit",
    "probprop.inference.likelihoods.unit",
    "test_unit",
    "probprop.reference.identity",
)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    """The blocks of the page as the modules they would be."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    modules = []
    for name, block in zip(HOMES, blocks, strict=True):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(block, str(PAGE), "exec"), vars(module))
        modules.append(module)
    return modules


def test_a_likelihood_trains_and_predicts(copied: list[ModuleType]) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((200, 2))
    y = 3.0 * X[:, 0] + rng.standard_normal(200)
    likelihood = copied[1].Unit()
    plan = Plan(likelihood, hidden=(10,), engine="reference")
    rows, targets = Inputs(X, None), likelihood.encode(y)
    fitted = training.start(plan, rows, targets, rng)
    (run,) = training.train(training.begin(plan, fitted, rows, targets, rng), [5])
    fitted = run.fitted
    predicted = predictive(plan, fitted.posterior, fitted.standardizer, rows)
    assert np.sqrt(np.mean((likelihood.point(predicted) - y) ** 2)) < 1.2
    assert likelihood.log_p(predicted, targets).mean() > -1.6  # -1.42 if all were known
    assert_allclose(likelihood.mixture([predicted, predicted]).std, predicted.std)


def test_the_oracle_holds_and_can_fail(
    copied: list[ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = copied[2]
    oracle.test_unit_against_quadrature(0.3, 0.7, 1.1)
    right = oracle.log_Z_unit
    monkeypatch.setattr(oracle, "log_Z_unit", lambda m, v, y: right(m, v + 1e-6, y))
    with pytest.raises(AssertionError):
        oracle.test_unit_against_quadrature(0.3, 0.7, 1.1)


def test_an_activation_has_its_moments_and_derivatives(copied: list[ModuleType]) -> None:
    m, v = np.array([-1.0, 2.0]), np.array([0.5, 3.0])
    found = copied[3].identity_moments(m, v)
    expected = [m, v, np.ones(2), np.zeros(2), np.zeros(2), np.ones(2)]
    for got, right in zip(found, expected, strict=True):
        assert_array_equal(got, right)

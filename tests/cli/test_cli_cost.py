"""The processor time of a fit, said before it starts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from limits import Limits
from probprop import PBPClassifier, PBPClassifierCV, PBPRegressor, PBPRegressorCV
from probprop.cli import cost
from probprop.cli.cost import cost_in_words


def test_a_short_fit_is_not_announced() -> None:
    assert cost_in_words(PBPClassifier(), 100, 10, 100) == ""
    assert cost_in_words(PBPRegressor(), 1_000, 10) == ""


def test_what_it_grows_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_seconds_of_evidence", lambda n_classes: 1e-6 * n_classes)

    def seconds(model: Any, n_samples: int = 5_000, n_classes: int = 1_000) -> float:
        number, unit = re.search(  # type: ignore[union-attr]
            r"([\d.]+) (s|min|h) of", cost_in_words(model, n_samples, 10, n_classes)
        ).groups()
        return float(number) * {"s": 1.0, "min": 60.0, "h": 3_600.0}[unit]

    single = seconds(PBPClassifier())
    assert seconds(PBPClassifier(n_epochs=80)) == pytest.approx(2.0 * single, rel=0.1)
    assert seconds(PBPClassifier(), 50_000) == pytest.approx(10.0 * single, rel=0.1)
    fast, best = (seconds(PBPClassifierCV(budget=budget)) for budget in ("fast", "best"))
    assert fast < seconds(PBPClassifierCV()) < best
    assert seconds(PBPClassifierCV(10)) > seconds(PBPClassifierCV(3))


@pytest.fixture
def update(limits: Limits) -> float:
    """Seconds of an update with ten features and 50 units, at this machine's speed of work.

    Each unit has 11 weights, the output's are counted twice, and 25 each for a unit and the output.
    """
    limits.costs_told_from(0.0)
    return cost._seconds_of_work() * (11 * 50 + 2 * 51 + 25 * 51)


def test_one_network_by_hand(update: float) -> None:
    words = cost_in_words(PBPRegressor(n_epochs=40), 1_000_000, 10)
    seconds = cost.duration(1_000_000 * 40 * update)
    assert words == f"1,000,000 samples: the fit takes about {seconds} of processor time"


@pytest.mark.parametrize("budget", ["fast", "good"])
def test_a_cross_validation_by_hand(update: float, budget: str) -> None:
    """Two candidates of one form, both kept until the end, and stacked in all five folds."""
    candidates = [{"evidence_cap": 10.0}, {"evidence_cap": 30.0}]
    model = PBPRegressorCV(5, candidates=candidates, budget=budget)
    n_epochs = {"fast": 80, "good": 320}[budget]
    most = 16_000 * update * n_epochs * 2 * 5
    words = cost_in_words(model, 20_000, 10)
    assert words.endswith(f"takes up to {cost.duration(most)} of processor time")


def test_columns_of_0_and_1_are_not_expanded(update: float) -> None:
    few, many = (cost_in_words(PBPRegressorCV(), 20_000, 12, n_indicators=n) for n in (10, 0))
    assert few != many

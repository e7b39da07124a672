"""The words of a report on error bars agree with its charts."""

from __future__ import annotations

import numpy as np
import pytest

from probprop import metrics
from probprop.predictive.gaussian import Predictive
from probprop.report.regression import _coverage_sentence, _quality


def test_the_verdict_does_not_contradict_the_chart() -> None:
    """Skewed targets: 95 % intervals hold what they should, 50 % intervals far too many."""
    rng = np.random.RandomState(0)
    y = np.exp(1.2 * rng.standard_normal(600))
    p = Predictive(np.full(600, y.mean()), np.zeros(600), y.std(), 6.0)
    section = _quality(y, p, "price", True)
    assert 0.94 < metrics.summary(y, p)["coverage_95"] < 0.97
    assert "The error bars are not honest" in section.text
    assert "too wide (" in section.text
    assert "no reason to doubt" not in section.text


@pytest.mark.parametrize("coverage", [0.95, 0.8, 1.0])
def test_coverage_in_words(coverage: float) -> None:
    sentence = _coverage_sentence(coverage, 1_000, "")
    assert f"{1_000 * coverage:,.0f} ({100 * coverage:.1f} %)" in sentence
    assert "936 to 963" in sentence

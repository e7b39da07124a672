"""The words of a report on calibration agree with its charts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from probprop import PBPRegressor, metrics
from probprop.distributions.mixture import Mixture
from probprop.metrics.verdict import verdict
from probprop.report.sections import _coverage_sentence
from report_sections import sections_of


def test_the_verdict_does_not_contradict_the_chart() -> None:
    """Skewed targets: 95 % intervals have the right coverage, 50 % intervals far too much."""
    rng = np.random.RandomState(0)
    y = np.exp(1.2 * rng.standard_normal(600))
    p = Mixture.of_one(np.full(600, y.mean()), np.zeros(600), y.std())
    text = str(verdict(y, p))
    assert 0.94 < metrics.summary(y, p)["coverage_95"] < 0.97
    assert text.startswith("The intervals are about ")
    assert "too wide" in text
    assert "calibrated" not in text


def test_a_skewed_table_lists_where_its_intervals_are_not_calibrated() -> None:
    """Prices whose errors grow with them, and plain PBP, whose noise is the same everywhere."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((1_600, 3))
    price = 1e5 * np.exp(0.8 * X[:, 0] + 0.4 * X[:, 1] + 0.35 * rng.standard_normal(1_600))
    model = PBPRegressor(random_state=0).fit(X[:1000], price[:1000])
    options: Any = {"feature_names": ["area", "place", "age"], "target": "price", "held_out": True}
    text = sections_of(model, X[1000:], price[1000:], **options)[0].text
    assert "The test of the hypothesis that they are calibrated has p < 0.001." in text
    narrow = r"here predictions are above ([\d,]+) they are about (\d+) % too narrow"
    wide = r"here predictions are below ([\d,]+) they are about (\d+) % too wide"
    [(above, too_narrow)], [(below, too_wide)] = re.findall(narrow, text), re.findall(wide, text)
    p = model.predict_distribution(X[1000:])
    z = np.abs(price[1000:] - p.mean) / p.std
    for end, size, side in ((above, -int(too_narrow), 1), (below, int(too_wide), -1)):
        limit = float(end.replace(",", ""))
        rows = side * (p.mean - limit) > 0.01 * limit  # the end is written with three digits
        width = norm.ppf(0.9) / np.quantile(z[rows], 0.8)  # of the 80 % interval, to the right one
        assert 100.0 * (width - 1.0) == pytest.approx(size, rel=0.4, abs=10.0)
        assert np.sign(width - 1.0) == np.sign(size)


@pytest.mark.parametrize("coverage", [0.95, 0.8, 1.0])
def test_coverage_in_words(coverage: float) -> None:
    sentence = _coverage_sentence(coverage, 1_000, None)
    share = f"empirical coverage {100 * coverage:.1f} %"
    assert f"contain {1_000 * coverage:,.0f} of 1,000 samples ({share})" in sentence
    assert "936 to 963" in sentence

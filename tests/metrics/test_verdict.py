"""The verdict on error bars: seldom wrong on honest ones, right on those that are not."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose
from scipy.stats import norm

from probprop import metrics
from probprop._types import FloatArray
from probprop.distributions.mixture import Mixture
from probprop.metrics.classes import class_baseline
from probprop.metrics.regression import baseline_summary
from probprop.metrics.verdict import largest_by_chance, verdict


def gaussian(mean: FloatArray, std: FloatArray) -> Mixture:
    return Mixture.of_one(mean, 0.6 * std, 0.8 * std)


def honest(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = RandomState(seed)
    mean, std = rng.uniform(-5.0, 5.0, n), rng.uniform(0.5, 2.0, n)
    return rng.normal(mean, std), mean, std


@pytest.mark.parametrize("n", [1, 5, 44, 400])
def test_honest_error_bars_are_doubted_in_one_of_twenty_tables(n: int) -> None:
    found = [
        verdict(y, gaussian(mean, std)) for y, mean, std in (honest(n, seed) for seed in range(300))
    ]
    # Above 10 % by chance of one in 1,000 such tests; the draws are fixed.
    assert np.mean([not each.all_rows.honest for each in found]) < 0.10
    assert np.mean([len(each.doubtful) > 0 for each in found]) < 0.10


def test_the_limit_is_that_of_simulated_intervals() -> None:
    """The oracle draws targets and counts them in intervals; nothing of multinomials."""
    n, rng = 487, RandomState(0)
    largest = []
    for _ in range(2_000):
        needed = 2.0 * norm.cdf(np.abs(rng.standard_normal(n))) - 1.0
        inside = (needed[:, None] <= metrics.LEVELS).mean(axis=0)
        spread = np.sqrt(metrics.LEVELS * (1.0 - metrics.LEVELS) / n)
        largest.append(np.abs((inside - metrics.LEVELS) / spread).max())
    assert np.mean(np.array(largest) > largest_by_chance(n) + 1e-9) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(("factor", "word"), [(0.7, "too narrow"), (1.5, "too wide")])
def test_error_bars_of_the_wrong_size(factor: float, word: str) -> None:
    y, mean, std = honest(500, 0)
    found = verdict(y, gaussian(mean, factor * std))
    assert not found.honest
    assert f"they are {word} (" in str(found)
    assert "fewer than 1 of 1,000 honest models" in str(found)


def test_tails_that_are_too_heavy_are_both() -> None:
    y = RandomState(0).standard_t(1.5, 2_000)
    found = verdict(y, gaussian(np.zeros(2_000), np.full(2_000, 1.7)))
    assert "too wide" in str(found)
    assert "too narrow" in str(found)
    assert found.doubtful == ()  # no third differs from another


@pytest.mark.parametrize("by", ["predictions", "standard deviations"])
def test_it_says_where(by: str) -> None:
    """Right on average, too narrow in one third and too wide in another."""
    rng = RandomState(1)
    n = 3_000
    size, other = rng.uniform(0.0, 3.0, n), rng.permutation(np.linspace(1.0, 1.001, n))
    true = np.select([size < 1.0, size < 2.0], [0.6, 1.0], 1.5)
    if by == "predictions":
        mean, std = size, other
    else:
        mean, std, true = other, 0.2 + size, (0.2 + size) * true
    text = str(verdict(rng.normal(mean, true), gaussian(mean, std)))
    words = {"predictions": "predictions", "standard deviations": "predicted stds"}[by]
    assert re.search(
        rf"(?i)where {words} are above [\d.]+ they are too narrow \(95 % intervals hold 8", text
    )
    assert re.search(
        rf"(?i)where {words} are below [\d.]+ they are too wide \(50 % intervals hold", text
    )
    others = {"predictions": "predicted stds", "predicted stds": "predictions"}[words]
    assert f"here {others} are" not in text


def test_what_is_wrong_everywhere_is_said_once() -> None:
    y, mean, std = honest(3_000, 0)
    found = verdict(y, gaussian(mean, 0.5 * std))
    assert not found.all_rows.honest
    assert found.doubtful == ()


def test_few_rows_and_equal_rows_have_no_thirds() -> None:
    y, mean, std = honest(59, 0)
    assert verdict(y, gaussian(mean, 0.2 * std)).doubtful == ()
    flat = gaussian(np.zeros(600), np.full(600, 0.2))
    assert verdict(RandomState(0).standard_normal(600), flat).doubtful == ()


def test_many_rows_are_judged_in_fifths() -> None:
    y, mean, std = honest(3_000, 0)
    worst = mean > np.quantile(mean, 0.8)
    found = verdict(y, gaussian(mean, np.where(worst, 0.5, 1.05) * std))
    of_mean = [each for each in found.doubtful if each.part.by == "prediction"]
    assert [each.n for each in of_mean if each.narrow] == [600]
    [part] = [each.part for each in of_mean if each.narrow]
    assert part.low == pytest.approx(np.quantile(mean, 0.8), abs=0.05)
    assert part.high is None


def test_what_is_wrong_everywhere_but_not_alike_is_told_part_by_part() -> None:
    y, mean, std = honest(3_000, 0)
    found = verdict(y, gaussian(mean, np.where(mean > 0.0, 0.3, 0.7) * std))
    of_mean = [each for each in found.doubtful if each.part.by == "prediction"]
    assert len(of_mean) == 5
    assert of_mean[0].narrow[1] > 0.7 > of_mean[-1].narrow[1]
    assert str(found).count("where predictions") == 4  # and the first, with a capital


def test_it_can_be_written_as_json() -> None:
    y, mean, std = honest(900, 0)
    found = verdict(y, gaussian(mean, np.where(mean > 0.0, 0.5, 1.5) * std))
    back = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert back["honest"] is False
    assert back["words"] == str(found)
    assert back["all_rows"]["rows"] == 900
    assert {part["by"] for part in back["parts"]} == {"prediction", "standard deviation"}
    assert back["parts"][0]["low"] is None
    assert back["parts"][0]["faults"][0]["error_bars"] == "too wide"


# ---- Without features


def test_the_baseline_is_the_marginal_mean_and_std() -> None:
    y = RandomState(0).gamma(2.0, 3.0, 200)
    found = baseline_summary(y, 5.0, 4.0)
    assert found is not None
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - 5.0) ** 2)))
    assert found["r2"] == pytest.approx(1.0 - np.mean((y - 5.0) ** 2) / y.var())
    assert found["log_likelihood"] == pytest.approx(norm.logpdf(y, 5.0, 4.0).mean())
    expected = Mixture.of_one(np.full(200, 5.0), np.zeros(200), 4.0).crps(y).mean()
    assert found["crps"] == pytest.approx(expected)
    assert baseline_summary(y, 5.0, 0.0) is None


def test_the_baseline_of_classes_is_their_shares() -> None:
    found = class_baseline([0, 0, 0, 2], 3)
    assert_allclose(
        [found[k] for k in ("accuracy", "log_loss", "brier", "calibration_error")],
        [0.75, -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)), 1.0 - 0.75**2 - 0.25**2, 0.0],
        atol=1e-15,
    )


def test_many_rows_do_not_condemn_what_is_off_by_less_than_a_percentage_point() -> None:
    """Error bars 1.5 % too wide: half a point at the middle levels, plain to 200,000 rows."""
    y = RandomState(0).standard_normal(200_000)
    found = verdict(y, gaussian(np.zeros(len(y)), np.full(len(y), 1.015)))
    assert found.all_rows.p_value < 1e-3
    assert found.honest
    assert str(found) == (
        "The error bars hold what they say to within a percentage point, at all levels. 200,000 "
        "rows tell that from chance; for use it makes no difference."
    )
    wider = verdict(y, gaussian(np.zeros(len(y)), np.full(len(y), 1.05)))
    assert not wider.honest

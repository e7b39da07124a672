"""The verdict on intervals: seldom wrong on calibrated ones, right on the others, with a size."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose
from scipy.stats import norm

from probprop._types import FloatArray
from probprop.distributions.mixture import Mixture
from probprop.metrics.classes import class_baseline
from probprop.metrics.regression import baseline_summary
from probprop.metrics.verdict import class_verdict, largest_by_chance, scale_of, verdict


def gaussian(mean: FloatArray, std: FloatArray) -> Mixture:
    return Mixture.of_one(mean, 0.6 * std, 0.8 * std)


def calibrated(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = RandomState(seed)
    mean, std = rng.uniform(-5.0, 5.0, n), rng.uniform(0.5, 2.0, n)
    return rng.normal(mean, std), mean, std


@pytest.mark.parametrize("n", [1, 5, 44, 400])
def test_calibrated_intervals_are_doubted_in_one_of_twenty_tables(n: int) -> None:
    found = [
        verdict(y, gaussian(mean, std))
        for y, mean, std in (calibrated(n, seed) for seed in range(300))
    ]
    # Above 10 % by chance of one in 1,000 such tests; the draws are fixed.
    assert np.mean([not each.all_rows.calibrated for each in found]) < 0.10
    assert np.mean([len(each.doubtful) > 0 for each in found]) < 0.10


def test_calibrated_intervals_are_not_clearly_too_wide() -> None:
    """Fifty rows with intervals 39 ± 30 % too wide once were "calibrated"."""
    n_wide = 0
    for seed in range(100):
        y, mean, std = calibrated(50, seed)
        found = verdict(y, gaussian(mean, 1.4 * std)).all_rows
        size, take = (float(re.search(r"[\d.]+", each)[0]) for each in found.words)  # type: ignore[index]
        assert not found.calibrated or size <= 1.3 * take + 1.0
        n_wide += not found.calibrated
    assert n_wide > 70


def test_the_limit_matches_simulated_intervals() -> None:
    """The oracle draws targets and counts them in intervals; nothing of multinomials."""
    n, rng = 487, RandomState(0)
    levels = np.linspace(0.0, 1.0, 2_001)
    largest = []
    for _ in range(500):
        needed = np.sort(2.0 * norm.cdf(np.abs(rng.standard_normal(n))) - 1.0)
        inside = np.searchsorted(needed, levels, side="right") / n
        largest.append(np.abs(inside - levels).max())
    assert np.mean(np.array(largest) > largest_by_chance(n)) == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize(("factor", "word"), [(0.7, "too narrow"), (1.5, "too wide")])
def test_intervals_of_the_wrong_width(factor: float, word: str) -> None:
    y, mean, std = calibrated(500, 0)
    found = verdict(y, gaussian(mean, factor * std))
    assert not found.calibrated
    found_size = re.match(
        rf"The intervals are about (\d+) % {word}, give or take (\d+) %\.", str(found)
    )
    assert found_size is not None
    size, take = map(int, found_size.groups())
    assert abs(size - 100 * abs(factor - 1.0)) <= take + 1
    assert found.all_rows.p_value < 1e-3
    assert found.as_dict()["all_rows"]["scale"] == pytest.approx(1.0 / factor, rel=0.1)


def test_tails_that_are_too_heavy_are_reported_at_a_level() -> None:
    y = RandomState(0).standard_t(1.5, 2_000)
    found = verdict(y, gaussian(np.zeros(2_000), np.full(2_000, 1.8)))
    assert re.search(r"about \d+ % too (wide|narrow) at the \d+ % level, give or take", str(found))
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
    narrow = re.search(
        rf"(?i)where {words} are above [\d.]+ they are about (\d+) % too narrow", text
    )
    wide = re.search(rf"(?i)where {words} are below [\d.]+ they are about (\d+) % too wide", text)
    assert narrow is not None
    assert 25 <= int(narrow[1]) <= 36
    assert wide is not None
    assert 40 <= int(wide[1]) <= 72
    others = {"predictions": "predicted stds", "predicted stds": "predictions"}[words]
    assert f"here {others} are" not in text


def test_what_is_wrong_everywhere_is_said_once() -> None:
    y, mean, std = calibrated(3_000, 0)
    found = verdict(y, gaussian(mean, 0.5 * std))
    assert not found.all_rows.calibrated
    assert found.doubtful == ()


def test_few_rows_and_equal_rows_have_no_thirds() -> None:
    y, mean, std = calibrated(59, 0)
    assert verdict(y, gaussian(mean, 0.2 * std)).doubtful == ()
    flat = gaussian(np.zeros(600), np.full(600, 0.2))
    assert verdict(RandomState(0).standard_normal(600), flat).doubtful == ()


def test_a_third_is_named_by_its_end() -> None:
    y, mean, std = calibrated(3_000, 0)
    worst = mean > np.quantile(mean, 2 / 3)
    found = verdict(y, gaussian(mean, np.where(worst, 0.5, 1.05) * std))
    [part] = [each for each in found.doubtful if each.where.startswith("where predictions are ab")]
    assert part.n == 1_000
    assert part.too_narrow
    end = float(part.where.rpartition(" ")[2])
    assert end == pytest.approx(np.quantile(mean, 2 / 3), abs=0.05)


def test_miscalibration_that_differs_is_reported_part_by_part() -> None:
    y, mean, std = calibrated(3_000, 0)
    found = verdict(y, gaussian(mean, np.where(mean > 0.0, 0.3, 0.7) * std))
    of_mean = [each for each in found.doubtful if "predictions" in each.where]
    assert len(of_mean) == 3
    assert of_mean[0].scale.factor < of_mean[-1].scale.factor
    assert str(found).count("where predictions") == 2  # and the first, with a capital


def test_it_can_be_written_as_json() -> None:
    y, mean, std = calibrated(900, 0)
    found = verdict(y, gaussian(mean, np.where(mean > 0.0, 0.5, 1.5) * std))
    back = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert back["calibrated"] is False
    assert back["words"] == str(found)
    assert back["all_rows"]["rows"] == 900
    assert back["parts"][0]["where"].startswith("where predictions are below ")
    assert back["parts"][0]["inside"] > back["parts"][0]["level"]
    assert back["all_rows"]["scale"] > 0.0
    assert "p_value" in back["all_rows"]


# ---- The size


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("factor", [0.6, 1.0, 1.7])
def test_the_scale_and_its_error_match_simulations(n: int, factor: float) -> None:
    """Intervals of `factor` times the right width: the scale is 1 / factor, in 95 % of tables."""
    logs, inside = [], 0
    for seed in range(200):
        y, mean, std = calibrated(n, seed)
        found = scale_of(gaussian(mean, factor * std).cdf(y))
        logs.append(np.log(found.factor))
        inside += abs(logs[-1] + np.log(factor)) < 1.96 * found.error
    assert np.mean(logs) == pytest.approx(-np.log(factor), abs=3.0 * np.std(logs) / 14 + 0.6 / n)
    assert 0.88 <= inside / 200 <= 0.99


def test_outliers_do_not_decide_the_scale() -> None:
    y, mean, std = calibrated(400, 0)
    before = scale_of(gaussian(mean, std).cdf(y)).factor
    y[:4] += 1e9
    assert scale_of(gaussian(mean, std).cdf(y)).factor == pytest.approx(before, rel=0.03)


def test_the_scale_of_all_or_none_is_bounded() -> None:
    flat = gaussian(np.zeros(5), np.ones(5))
    assert scale_of(flat.cdf(np.zeros(5))).factor < 0.02
    far = scale_of(flat.cdf(np.full(5, 1e6)))
    assert far.factor > 10.0
    assert json.dumps(verdict(np.full(5, 1e6), flat).as_dict(), allow_nan=False)


def test_the_same_share_off_is_not_the_same_size() -> None:
    """50 % intervals that hold 53.6 %, and such that hold 93.7 %."""
    y, mean, std = calibrated(5_000, 0)
    slightly, far = (verdict(y, gaussian(mean, f * std)) for f in (1.085, 2.75))
    assert re.match(r"The intervals are about [789] % too wide, give or take 2 %\.", str(slightly))
    assert re.match(r"The intervals are about 17\d % too wide, give or take", str(far))


@pytest.mark.parametrize(
    ("n_right", "expected"),
    [
        (89, "calibrated (about 1 point overconfident, give or take 6 points)"),
        (86, "calibrated (about 4 points overconfident, give or take 6 points)"),
        (70, "about 20 points overconfident, give or take 6 points"),
        (99, "about 9 points underconfident, give or take 6 points"),
    ],
)
def test_probabilities_have_a_size_in_points(n_right: int, expected: str) -> None:
    found = class_verdict(n_right, np.full(100, 0.9))
    assert str(found) == f"The probabilities are {expected}."
    assert found.calibrated == expected.startswith("calibrated")
    assert found.p_value == pytest.approx(2.0 * norm.sf(abs(0.9 - n_right / 100) / 0.03), abs=1e-9)
    assert json.dumps(found.as_dict(), allow_nan=False)


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
    """Standard deviations 1.5 % too large: half a point of coverage, detected with 200,000 rows."""
    y = RandomState(0).standard_normal(200_000)
    found = verdict(y, gaussian(np.zeros(len(y)), np.full(len(y), 1.015)))
    assert found.all_rows.p_value < 1e-3
    assert found.calibrated
    expected = r"The intervals are calibrated \(about [12] % too wide, give or take 0\.\d %\)\."
    assert re.fullmatch(expected, str(found))
    wider = verdict(y, gaussian(np.zeros(len(y)), np.full(len(y), 1.05)))
    assert not wider.calibrated

"""The seconds of a budget: how they are spent, on further partitions too, and why they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from cv_folds import ByHand, drawn_folds
from cv_models import assert_equal
from model_files import header_of
from probprop import Candidate, PBPRegressor, PBPRegressorCV, load
from probprop.estimators.cv import policy
from probprop.estimators.cv import search as search_module
from probprop.estimators.cv.calibration import ValuesJudge
from probprop.estimators.cv.folds import Encodings, Fold, make_folds
from probprop.estimators.cv.policy import MOST_PARTITIONS, Budget, read_budget, work_of_a_row
from probprop.estimators.cv.search import Attempt, Contest, Search, Timer
from probprop.inference import training
from probprop.inference.likelihoods import Gaussian

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
ONE = [Candidate(None, (4,), 10.0)]
THREE = [*ONE, Candidate(None, (4,), None), Candidate(None, (4, 4))]
CHECKS = (20, 40, 80)
CAP = f"the winner has learned {MOST_PARTITIONS} partitions"


def waves(n: int = 40, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, 5.0 + 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


class Clock:
    """Time goes by with the work of the kernel; a noise network takes longer for its size."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, advance = 0.0, training.advance

        def slow(runs: Any, n_epochs: int, n_threads: int = 1) -> Any:
            self.now += n_epochs * sum(map(self.epoch, runs))
            return advance(runs, n_epochs, n_threads)

        monkeypatch.setattr(training, "advance", slow)

    @staticmethod
    def epoch(run: Any) -> float:
        times = 2.2 if run.plan.likelihood.name == "scale" else 1.0
        return 1e-6 * times * len(run.rows.y) * work_of_a_row(run.fitted.posterior.layer_sizes)

    def __call__(self) -> float:
        return self.now


def search(seconds: float | None, clock: Any, *, noise: Any = "constant", **options: Any) -> Search:
    X, y = waves()
    rng = np.random.RandomState(0)

    def another() -> Sequence[Fold]:
        return make_folds(4, X, y, None, rng)

    folds, again = another(), another()
    judge = ValuesJudge(Gaussian(), noise=noise)
    contest = Contest(Encodings(X, np.dtype(np.float32)), y, folds, judge, again=again)
    usual = {"seed": 0, "another": another, "clock": clock}
    budget = Budget() if seconds is None else read_budget(seconds)
    return Search(contest, replace(budget, checks=CHECKS), **{**usual, **options})


def of_noise(noise: Any, candidates: Sequence[Candidate] = THREE) -> list[Candidate]:
    return [replace(candidate, noise=noise) for candidate in candidates]


# ---- How the seconds are spent


@pytest.mark.parametrize("noise", ["constant", "auto"])
@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("seconds", [1.0, 2.0, 4.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 60.0])
def test_seconds_are_used_or_it_says_why(
    monkeypatch: pytest.MonkeyPatch, seconds: float, powers: bool, noise: Any
) -> None:
    clock = Clock(monkeypatch)
    found = search(seconds, clock, powers=powers, noise=noise).best_of(of_noise(noise))
    ended, n_partitions = found.race.choice.ended, len(found.race.partitions)
    assert clock.now <= 1.1 * seconds
    assert ended in ("out of time", CAP)
    assert (ended == CAP) == (n_partitions == MOST_PARTITIONS)
    if ended == "out of time":
        assert clock.now > 0.8 * seconds
    # A noise network would take 9 seconds; it is tried where that is not more than a third.
    assert np.isfinite(found.calibrated.calibration.gain) == (noise == "auto" and seconds > 27.0)


def test_the_race_is_the_same_however_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    little, much, free = (search(s, clock).best_of(of_noise("constant")) for s in (12, 60, None))
    few, more, two = (len(found.race.partitions) for found in (little, much, free))
    assert two < few < more == MOST_PARTITIONS
    for found in (much, free):
        for a, b in pairwise([little.race.choice.curves, found.race.choice.curves]):
            assert [c.calibrated for c in a] == [c.calibrated for c in b]
    assert free.race.choice.ended == "the race was over"
    for one, other in zip(little.race.checks, much.race.checks[:few], strict=True):
        assert_array_equal(one.log_p, other.log_p)


def test_a_single_partition_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    given = search(60.0, clock, another=None)
    given = replace(given, contest=replace(given.contest, again=()))
    found = given.best_of(of_noise("constant"))
    assert len(found.race.partitions) == 1
    assert found.race.choice.ended == "the race was over, and cv is a single partition"
    X, y = waves()
    model = PBPRegressorCV(KFold(4), candidates=ONE, budget=0.5).fit(X, y)
    assert model.n_partitions_ == 1


def test_the_share_of_the_seconds_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    told: list[tuple[float, float]] = []
    given = search(20.0, clock, report=lambda share: told.append((share, clock.now)))
    given.best_of(of_noise("constant"))
    shares, times = zip(*told, strict=True)
    assert_allclose(shares, np.array(times) / 20.0)
    assert len(set(shares)) > 5
    assert 0.8 < shares[-1] <= 1.0


def test_time_for_what_has_to_follow() -> None:
    now = 0.0
    timer = Timer(Budget(seconds=100.0), lambda: now, after=10.0, rate=1.0)
    assert timer.affords(90.0)  # a tenth of the seconds is for what follows
    assert not timer.affords(90.1)
    timer.held = 20.0
    assert timer.affords(70.0)
    assert not timer.affords(70.1)
    timer.held = 0.0
    slow = Timer(Budget(seconds=100.0), lambda: now, after=10.0, rate=4.0)
    assert slow.affords(15.0)  # or more, where that takes longer
    assert not slow.affords(15.1)


# ---- What further partitions are


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> PBPRegressorCV:
    """Return a model of four partitions, whatever the clock says."""
    monkeypatch.setattr(policy, "MOST_PARTITIONS", 4)
    X, y = waves(60)
    model = PBPRegressorCV(4, candidates=ONE, budget=1e6, random_state=0)
    return model.fit(X, y)


def test_they_are_fits_of_their_own_and_calibrated_together(four: PBPRegressorCV) -> None:
    X, y = waves(60)
    assert (four.n_partitions_, len(four.estimators_)) == (4, 16)
    assert four.choice_.ended == "the winner has learned 4 partitions"
    rng = np.random.RandomState(0)
    partitions = [make_folds(4, X, y, None, rng) for _ in range(2)]
    rng.randint(2**31 - 1)  # the seed of the noise network
    partitions += [make_folds(4, X, y, None, rng) for _ in range(2)]
    assert [fold.test.tolist() for fold in partitions[0]] == [
        test.tolist() for _, test in drawn_folds(60, 4)[0]
    ]
    mean, var = np.empty((4, 60)), np.empty((4, 60))
    for i, member in enumerate(four.estimators_):
        fold = partitions[i // 4][i % 4]
        alone = PBPRegressor(
            (4,),
            n_epochs=four.choice_.n_epochs,
            evidence_cap=10.0,
            dtype="float32",
            random_state=fold.seed,
        ).fit(X[fold.train], y[fold.train])
        assert_array_equal(alone.posterior_.m_w[0], member.posterior_.m_w[0])
        assert alone.history_ == member.history_
        held_out = alone.predict_distribution(X[fold.test])
        mean[i // 4, fold.test], var[i // 4, fold.test] = held_out.mean, held_out.var
    by_hand = ByHand(y, mean, var, n_members=16)
    squares = four.calibration_.squares
    assert (squares.n_pooled, squares.n_members, squares.n_rows) == (4, 16, 60)
    assert_allclose([squares.error, squares.between], [by_hand.error, by_hand.between], rtol=1e-5)
    assert_allclose(four.calibration_.factor, by_hand.factor, rtol=1e-5)
    assert_allclose(four.oof_predictive_.mean, by_hand.pooled_mean, rtol=1e-6)


def test_they_go_on_and_come_back(four: PBPRegressorCV, tmp_path: Path) -> None:
    four.partial_fit(*waves(5, seed=1))
    squares = four.calibration_.squares
    assert (squares.n_pooled, squares.n_members, squares.n_rows) == (4, 16, 65)
    four.save(tmp_path / "m")
    assert_equal(four, load(tmp_path / "m"))
    with header_of(tmp_path / "m") as header:  # as it was before files said why it ended
        del header["choice_"]["ended"]
    assert load(tmp_path / "m").choice_.ended == ""


# ---- Ctrl-C, and predictions that are not finite


def interrupted_at(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel answer one call with what Ctrl-C makes of it."""
    advance, calls = training.advance, iter(range(1, 1000))

    def pressed(runs: Any, n_epochs: int, n_threads: int = 1) -> Any:
        if next(calls) == call:
            return list(runs), KeyboardInterrupt()
        return advance(runs, n_epochs, n_threads)

    monkeypatch.setattr(training, "advance", pressed)


def alone(**options: Any) -> Attempt:
    given = search(1e9, lambda: 0.0, **options)
    return replace(given, budget=Budget((10,), 1e9)).best_of(of_noise("constant", ONE))


@pytest.mark.parametrize(("call", "n_partitions"), [(5, 2), (6, 3), (7, 4)])
def test_ctrl_c_keeps_the_partitions_so_far(
    monkeypatch: pytest.MonkeyPatch, call: int, n_partitions: int
) -> None:
    whole = alone()
    interrupted_at(call, monkeypatch)  # two measure, one races, then one per partition
    found = alone()
    assert found.race.interrupted
    assert found.race.choice.ended == "interrupted"
    assert len(found.race.partitions) == n_partitions
    assert found.calibrated.calibration.squares.n_pooled == n_partitions
    for one, other in zip(found.race.checks, whole.race.checks, strict=False):
        assert_array_equal(one.log_p, other.log_p)


def test_a_partition_that_is_not_finite_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    check_of = search_module.check_of
    n_made = 0

    def broken(*given: Any) -> Any:
        nonlocal n_made
        check, n_made = check_of(*given), n_made + 1
        return check if n_made < 5 else replace(check, log_p=np.nan * check.log_p)

    monkeypatch.setattr(search_module, "check_of", broken)
    found = alone()
    assert n_made == 5  # one in the race, two of its partitions, two further ones
    assert len(found.race.partitions) == 3
    assert "not finite" in found.race.choice.ended
    assert not found.race.interrupted

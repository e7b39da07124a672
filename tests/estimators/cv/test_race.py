"""The race: who is dropped and why, the clock, Ctrl-C, and the bar."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from probprop import Candidate, PBPRegressorCV
from probprop.estimators.cv import search as search_module
from probprop.estimators.cv.calibration import OutOfFold, ValuesJudge
from probprop.estimators.cv.folds import Encodings, make_folds
from probprop.estimators.cv.policy import (
    OF_LABELS,
    OF_VALUES,
    Budget,
    n_errors_behind,
    read_budget,
    usual_candidates,
)
from probprop.estimators.cv.search import (
    CandidateCurve,
    Check,
    Contest,
    Race,
    Runner,
    chosen,
    cut,
    race,
)
from probprop.estimators.progress import RaceBar, Share
from probprop.inference import training
from probprop.inference.likelihoods import Gaussian

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

# ---- Who is dropped


def runner(candidate: Candidate, *curve: float, spread: float = 0.0) -> Runner:
    """A candidate with this curve; its best log densities differ by `spread` between rows."""
    nothing = np.zeros(4)
    log_p = max(curve) + spread * np.array([1.0, -1.0, 1.0, -1.0])
    oof = OutOfFold(nothing, nothing, nothing, nothing, 1.0)
    n_epochs = tuple(20 * 2**i for i in range(len(curve)))
    best = Check(n_epochs[int(np.argmax(curve))], oof, (), (), log_p, 0.0)
    return Runner(CandidateCurve(candidate, n_epochs, curve), (), (), best)


RAW, BINS, DEEP = Candidate(None), Candidate(32), Candidate(32, (50, 50))


def outcomes(runners: list[Runner], n_epochs: int) -> list[str]:
    return [runner.curve.outcome for runner in cut(runners, n_epochs)]


def test_a_candidate_that_costs_less_wins_if_it_is_hardly_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The differences are 0.05 ± 0.05 for the second, 0.1 without an error for the first."""
    cost = {RAW: 1.0, replace(RAW, evidence_cap=10.0): 1.0, BINS: 2.0, DEEP: 3.0}
    monkeypatch.setattr(Runner, "work", property(lambda self: cost[self.curve.candidate]))
    deep = runner(DEEP, -0.5)
    bins, other = runner(BINS, -0.55, spread=0.1), runner(replace(RAW, evidence_cap=10.0), -0.6)
    runners = [other, bins, deep]
    assert [chosen(runners, n_errors) for n_errors in (0.0, 0.9, 1.1, 5.0)] == [2, 2, 1, 1]
    # Of those that cost the same the better one, whatever their order.
    both = [
        runner(RAW, -0.52, spread=0.1),
        runner(replace(RAW, evidence_cap=10.0), -0.51, spread=0.1),
    ]
    assert chosen([*both, deep], 1.0) == 1
    assert chosen([*both[::-1], deep], 1.0) == 0
    # One that never was judged, or was not finite, does not win.
    never = replace(both[0], best=None)
    assert chosen([never, deep], 1.0) == 1


def test_only_of_few_labels_the_leader_may_lose() -> None:
    assert [n_errors_behind(n, OF_LABELS) for n in (2, 999, 1_000)] == [1.0, 1.0, 0.0]
    assert [n_errors_behind(n, OF_VALUES) for n in (2, 10**9)] == [0.0, 0.0]


def test_one_evidence_cap_of_each_form_is_left() -> None:
    others = [replace(BINS, evidence_cap=m) for m in (10.0, 30.0)]
    runners = [runner(BINS, -1.0, -0.9), *(runner(c, -0.9, -0.8) for c in others[:1])]
    runners += [runner(others[1], -0.8, -0.7), runner(RAW, -0.9, -0.75)]
    assert outcomes(runners, 20) == ["", "", "", ""]
    dropped = "another evidence cap was better"
    assert outcomes(runners, 40) == [dropped, dropped, "", ""]


@pytest.mark.parametrize(
    ("spread", "curve", "outcome"),
    [
        (0.0, (-1.5, -1.49), "behind the leader"),
        (0.1, (-1.5, -1.49), "behind the leader"),  # 0.49 is above 2 * 0.05
        (0.6, (-1.5, -1.49), ""),  # but not above 2 * 0.3
        (0.0, (-2.3, -1.5), ""),  # it may catch up
    ],
)
def test_those_behind_are_dropped(spread: float, curve: Any, outcome: str) -> None:
    runners = [runner(RAW, -1.1, -1.0), runner(BINS, *curve, spread=spread)]
    assert outcomes(runners, 40) == ["", outcome]


def test_those_that_no_longer_improve_are_dropped() -> None:
    runners = [runner(RAW, -1.0, -1.2, -1.1), runner(DEEP, -1.2, -1.0, -1.1)]
    assert outcomes(runners, 80) == ["no longer improved", ""]


# ---- Time


class FakeClock:
    """Time goes by with the work that the kernel is given, and with nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, speed: float) -> None:
        self.now = 0.0
        advance = training.advance

        def slow(runs: Any, n_epochs: int, n_threads: int = 1) -> Any:
            self.now += (
                n_epochs * sum(len(run.rows.y) * row(run.plan.hidden) for run in runs) / speed
            )
            return advance(runs, n_epochs, n_threads)

        monkeypatch.setattr(search_module.training, "advance", slow)

    def __call__(self) -> float:
        return self.now


CANDIDATES = [Candidate(None, (4,), 10.0), Candidate(None, (4,), None), Candidate(None, (4, 4))]


def run(budget: Budget, clock: Callable[[], float], **options: Any) -> Race:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    folds = make_folds(4, X, y, None, rng)
    judge = ValuesJudge(Gaussian(), noise="constant")  # so that nothing has to follow
    contest = Contest(Encodings(X, np.dtype(np.float32)), y, folds, judge)
    return race(CANDIDATES, contest, budget, clock=clock, **options)


def row(hidden: tuple[int, ...]) -> float:
    """Make time go with the number of hidden units."""
    return 10.0 * sum(hidden)


@pytest.mark.parametrize("n_epochs", [40, 1000])
def test_seconds_are_kept(monkeypatch: pytest.MonkeyPatch, n_epochs: int) -> None:
    everything = 4 * 30 * sum(row(candidate.layers) for candidate in CANDIDATES)
    clock = FakeClock(monkeypatch, speed=everything)  # an epoch of all four folds takes a second
    found = run(Budget((20, 40, 80), seconds=n_epochs), clock)
    assert clock.now <= n_epochs
    assert (clock.now > 0.7 * n_epochs) == (n_epochs == 40)  # else candidates end before
    # With little time the second evidence cap is left out, before another form is.
    costly = [curve.outcome == "too costly for the budget" for curve in found.choice.curves]
    assert costly == [False, n_epochs == 40, False]


def test_even_without_time_there_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch, speed=1.0)
    found = run(Budget((20, 40), seconds=1e-9), clock)
    assert found.choice.n_epochs == 1
    assert [curve.n_epochs for curve in found.choice.curves] == [(1,), (), ()]
    assert found.choice.curves[0].outcome == "out of time"


def test_time_does_not_change_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch, speed=1.0)
    free, bound = (run(Budget((20, 40), s), clock).choice for s in (None, 1e9))
    assert [c.calibrated for c in free.curves] == [c.calibrated for c in bound.curves]


def test_the_share_that_is_done_grows_to_the_end() -> None:
    shares: list[Share] = []
    run(Budget((20, 40)), lambda: 0.0, report=shares.append)
    assert len(shares) == 7  # two at the start, one for every ten epochs, and the end
    assert sorted(shares) == shares
    assert 0.0 == shares[0] == shares[1] < shares[2]
    assert shares[-1] == 1.0
    assert [share.stage for share in shares] == ["encoding", *["comparing candidates"] * 6]


def test_the_bar() -> None:
    out = io.StringIO()
    bar = RaceBar(out)
    for share in (0.0, 0.01, 0.5, 0.52, 1.0):
        bar(Share(share, "training"))
    bar.close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("training [############............] 50 %")
    assert lines[0].endswith("s left")


def test_verbose_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.RandomState(0).standard_normal((20, 1))
    model = PBPRegressorCV(2, candidates=CANDIDATES[:1], budget="fast", random_state=0, verbose=1)
    model.fit(X, X[:, 0])
    captured = capsys.readouterr()
    assert "100 %" in captured.err
    assert not captured.out


def test_budgets() -> None:
    assert read_budget(60) == Budget((20, 40, 80, 160, 320, 640, 1280), 60.0, 20.0)
    best = usual_candidates("best", 5_000)
    assert {c.n_bins for c in best} == {None, 32, 64}
    assert {c.layers for c in best} == {(48,), (48, 48), (96, 96)}
    assert usual_candidates(60.0, 100) == usual_candidates("good", 100)


# ---- Ctrl-C, and predictions that are not finite


def interrupted_at(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel answer one call with what Ctrl-C makes of it."""
    advance, calls = training.advance, iter(range(1, 1000))

    def pressed(runs: Any, n_epochs: int, n_threads: int = 1) -> Any:
        if next(calls) == call:
            return list(runs), KeyboardInterrupt()
        return advance(runs, n_epochs, n_threads)

    monkeypatch.setattr(search_module.training, "advance", pressed)


def fit_interrupted() -> PBPRegressorCV:
    X = np.random.RandomState(0).standard_normal((30, 1))
    model = PBPRegressorCV(2, candidates=CANDIDATES, budget="fast", random_state=0)
    try:
        model.fit(X, X[:, 0])
    except KeyboardInterrupt:
        assert not hasattr(model, "estimators_")
        raise
    return model


def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_at(3, monkeypatch)
    with pytest.warns(RuntimeWarning, match="Ctrl-C ended the comparison"):
        model = fit_interrupted()
    assert model.choice_.n_epochs == 20
    assert {curve.outcome for curve in model.choice_.curves} == {"interrupted"}
    assert len(model.estimators_[0].history_) == 20


@pytest.mark.parametrize("call", [1, 2])
def test_ctrl_c_before_the_first_comparison(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    interrupted_at(call, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fit_interrupted()


def test_what_is_not_finite_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = search_module.output_moments

    def broken(plan: Any, *rest: Any) -> Any:
        mean, variance = moments(plan, *rest)
        return (mean * np.nan, variance) if plan.hidden == (4, 4) else (mean, variance)

    monkeypatch.setattr(search_module, "output_moments", broken)
    found = run(Budget((20, 40)), lambda: 0.0)
    assert found.choice.curves[2].outcome == "predictions were not finite"
    assert found.choice.best != 2
    monkeypatch.setattr(search_module, "output_moments", lambda *a: (np.full(10, np.nan),) * 2)
    with pytest.raises(FloatingPointError, match="No candidate made finite predictions"):
        run(Budget((20, 40)), lambda: 0.0)


def test_a_column_that_hardly_varies_in_a_fold_has_the_scale_of_all_rows() -> None:
    """A ramp with one row a hair above its start made predictions of 17,000 standard deviations."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.linspace(0.0, 1.0, 30), [1.0 + 1e-5, 2.0]])[:, np.newaxis]
    y = x[:, 0] + 0.1 * rng.standard_normal(32)
    every = np.arange(32)
    folds = [(every[:-1], every[-1:]), (every[10:], every[:10])]  # the first lacks the last ramp
    for n_bins in (31, None):
        model = PBPRegressorCV(candidates=[Candidate(n_bins=n_bins)], cv=folds, budget="fast")
        model.set_params(random_state=0).fit(x, y)
        assert model.predict_distribution([[1.9]]).epistemic_std[0] < 3.0
    flags = np.column_stack([x[:, 0], np.where(every == 31, 5_000.0, 0.0)])
    model.fit(flags, y)  # the flag is constant in the first fold
    assert model.estimators_[0].standardizer_.x_scale[1] == pytest.approx(flags[:, 1].std())
    assert model.predict_distribution(flags[-1:]).epistemic_std[0] < 10.0

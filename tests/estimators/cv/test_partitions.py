"""A second partition for few rows, few folds first for many: what the winner learns later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.model_selection import KFold

from cv_folds import ByHand, drawn_folds
from probprop import Candidate, PBPClassifierCV, PBPRegressor, PBPRegressorCV
from probprop.estimators.cv import search as search_module
from probprop.estimators.cv.calibration import LabelsOutOfFold, ValuesJudge
from probprop.estimators.cv.folds import Encodings, Fold, dealt_by_value, make_folds
from probprop.estimators.cv.policy import OF_LABELS, OF_VALUES, Budget, n_first_folds
from probprop.estimators.cv.search import Check, Contest, Race, race
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.likelihoods import Gaussian, of_classes

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
ONE = [Candidate(None, (4,), 10.0)]
THREE = [*ONE, Candidate(None, (4,), None), Candidate(None, (4, 4))]


def waves(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, 5.0 + 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def small(kind: Any = PBPRegressorCV, **parameters: Any) -> Any:
    usual = {"cv": 4, "candidates": ONE, "budget": "fast", "random_state": 0}
    return kind(**{**usual, **parameters})


def contest(n_first: int | None = None, *, again: bool = False) -> Contest:
    X, y = waves(40)
    rng = np.random.RandomState(0)
    folds, others = (make_folds(4, X, y, None, rng) for _ in range(2))
    encodings = Encodings(X, np.dtype(np.float32))
    return Contest(
        encodings,
        y,
        folds,
        ValuesJudge(Gaussian(), noise="constant"),  # so that nothing has to follow a race
        n_first=n_first,
        again=others if again else (),
    )


CONTESTS = [(None, True), (2, False), (1, False), (1, True)]


def same_networks(found: Check, expected: Check) -> None:
    for ours, theirs in zip(found.fitted, expected.fitted, strict=True):
        assert_array_equal(ours.posterior.m_w[0], theirs.posterior.m_w[0])
        assert_array_equal(ours.posterior.v_w[-1], theirs.posterior.v_w[-1])
    assert found.history == expected.history
    assert_array_equal(found.log_p, expected.log_p)


# ---- What the winner learns after the race


@pytest.mark.parametrize(("n_first", "again"), CONTESTS)
def test_later_folds_are_as_those_of_the_race(n_first: int | None, again: bool) -> None:
    """A race of the winner alone on all folds of a partition finds the same networks."""
    given = contest(n_first, again=again)
    found = race(THREE, given, Budget((20, 30)))
    assert found.partitions == ((given.folds, given.again) if again else (given.folds,))
    assert not found.interrupted
    budget = Budget((found.choice.n_epochs,))
    for check, folds in zip(found.checks, found.partitions, strict=True):
        alone = race([found.choice.candidate], replace(contest(), folds=folds), budget)
        same_networks(check, alone.checks[0])


@pytest.mark.parametrize("n_first", [1, 2])
def test_candidates_are_compared_on_the_first_folds(n_first: int) -> None:
    given = contest(n_first)
    found = race(THREE, given, Budget((20, 30)))
    only = race(THREE, replace(given, folds=given.first, n_first=None), Budget((20, 30)))
    curves, expected = ([c.calibrated for c in r.choice.curves] for r in (found, only))
    assert curves == expected
    assert len(found.checks[0].log_p) == 40 > len(only.checks[0].log_p) == 10 * n_first


def test_how_many_folds_come_first() -> None:
    many, very_many = OF_VALUES.rows
    assert [n_first_folds(n) for n in (2, many - 1)] == [None, None]
    assert [n_first_folds(n) for n in (many, very_many - 1, very_many, 10**9)] == [2, 2, 1, 1]
    assert [n_first_folds(n, OF_LABELS) for n in (2, 999, 1_000, 5_000)] == [None, None, 2, 1]


@pytest.mark.parametrize(("very_many", "n_first"), [(10**6, 2), (60, 1)])
def test_many_rows(monkeypatch: pytest.MonkeyPatch, very_many: int, n_first: int) -> None:
    monkeypatch.setattr(ValuesJudge, "usual", replace(OF_VALUES, rows=(50, very_many)))
    X, y = waves(60)
    model = small().fit(X, y)
    [folds] = drawn_folds(60, 4, n_partitions=1)
    mean, std = np.empty(60), np.empty(60)
    for member, (train, test) in zip(model.estimators_, folds, strict=True):
        alone = PBPRegressor(
            (4,),
            n_epochs=model.choice_.n_epochs,
            evidence_cap=10.0,
            dtype="float32",
            random_state=member.random_state,
        ).fit(X[train], y[train])
        assert_array_equal(alone.posterior_.m_w[0], member.posterior_.m_w[0])
        assert alone.history_ == member.history_
        mean[test], std[test] = alone.predict(X[test], return_std=True)
    assert model.n_partitions_ == 1
    assert_array_equal(model.oof_rows_, np.arange(60))
    by_hand = ByHand(y, mean[np.newaxis], std[np.newaxis] ** 2, n_members=4)
    assert_allclose(model.calibration_.factor, by_hand.error, rtol=1e-5)
    # Only the first folds were seen when candidates were compared.
    first = np.concatenate([test for _, test in folds[:n_first]])
    z = (y - mean)[first] / std[first]
    curve = model.choice_.curves[0]
    at = curve.n_epochs.index(model.choice_.n_epochs)
    assert_allclose(curve.factor[at], np.mean(z**2), rtol=1e-5)
    assert_allclose(curve.raw[at], np.mean(norm.logpdf(z) - np.log(std[first])), rtol=1e-5)


@pytest.mark.parametrize("kind", [PBPRegressorCV, PBPClassifierCV])
def test_only_an_int_is_drawn_again(kind: Any) -> None:
    X, y = waves(40)
    target = y if kind is PBPRegressorCV else y > 5.0
    twice = small(kind, cv=2).fit(X, target)
    assert (twice.n_partitions_, len(twice.estimators_)) == (2, 4)
    once = small(kind, cv=KFold(2, shuffle=True, random_state=0)).fit(X, target)
    assert (once.n_partitions_, len(once.estimators_)) == (1, 2)


def test_groups_stay_together_in_both_partitions() -> None:
    X, y = waves(40)
    groups = np.arange(40) // 4
    seen: list[Sequence[Fold]] = []
    rng = np.random.RandomState(0)
    for _ in range(2):
        seen.append(make_folds(4, X, y, groups, rng))
    for folds in seen:
        for fold in folds:
            assert not {*groups[fold.train]} & {*groups[fold.test]}
    parts = [{tuple(fold.test) for fold in folds} for folds in seen]
    assert parts[0] != parts[1]
    model = small().fit(X, y, groups=groups)
    learned = [member.n_samples_seen_ for member in model.estimators_]
    assert learned == [len(fold.train) for folds in seen for fold in folds]


# ---- Labels


@pytest.mark.parametrize("kind", ["two", "three", "several"])
def test_probabilities_of_all_partitions_are_averaged(kind: str) -> None:
    rng = np.random.RandomState(0)
    shape, n_classes = {"two": ((50,), 2), "three": ((50, 3), 3), "several": ((50, 2), 2)}[kind]
    likelihood = of_classes(np.arange(n_classes), multilabel=kind == "several")
    y = rng.randint(n_classes, size=50) if kind == "three" else rng.choice([-1.0, 1.0], size=shape)
    mean, variance = 3.0 * rng.standard_normal((2, *shape)), rng.uniform(0.1, 2.0, (2, *shape))
    parts = [LabelsOutOfFold(likelihood, m, v, y) for m, v in zip(mean, variance, strict=True)]
    both = parts[0].pooled(parts[1:])
    for T in (1.0, 1.7):
        each = [np.exp(part.predictive(T).log_proba) for part in parts]
        proba = np.mean(each, axis=0)
        assert np.abs(each[0] - each[1]).max() > 0.1
        assert_allclose(np.exp(both.predictive(T).log_proba), proba, rtol=1e-9)
        if kind == "several":
            expected = np.log(np.where(y > 0.0, proba, 1.0 - proba)).sum(axis=1)
        else:
            index = y if kind == "three" else (y > 0.0).astype(int)
            expected = np.log(proba[np.arange(50), index])
        assert_allclose(both.log_p(T), expected, rtol=1e-6)
    assert both.factor > 1.0  # the labels have nothing to do with the outputs


def test_both_partitions_of_labels_by_hand() -> None:
    X, y = waves(60)
    model = small(PBPClassifierCV, cv=3).fit(X, y > 5.0)
    log_p = np.full((2, 60), np.nan)
    for i, member in enumerate(model.estimators_):
        p, root = member.predict_distribution(X), np.sqrt(model.calibration_.temperature)
        tempered = model.likelihood_.of_outputs(p.mean / root, p.std**2, ENGINES["native"])
        test = held_out_rows(model, y > 5.0)[i]
        log_p[i // 3, test] = tempered.log_proba[test, (y > 5.0).astype(int)[test]]
    expected = -np.log(np.exp(log_p).mean(axis=0)).mean()
    assert_allclose(model.calibration_.log_loss, expected, rtol=1e-5)


def held_out_rows(model: PBPClassifierCV, labels: Any) -> list[Any]:
    """Return the rows that each member had not seen, as `random_state` deals them."""
    rng = np.random.RandomState(0)
    y, n_folds = model.likelihood_.encode(labels), model.cv
    found = []
    for _ in range(2):
        fold = dealt_by_value(y, n_folds, np.random.RandomState(rng.randint(2**31 - 1)))
        found += [np.flatnonzero(fold == i) for i in range(n_folds)]
        rng.randint(2**31 - 1, size=n_folds)  # the seeds of the networks
    return found


# ---- Ctrl-C, and predictions that are not finite


def interrupted_at(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel answer one call with what Ctrl-C makes of it."""
    advance, calls = training.advance, iter(range(1, 1000))

    def pressed(runs: Any, n_epochs: int, n_threads: int = 1) -> Any:
        if next(calls) == call:
            return list(runs), KeyboardInterrupt()
        return advance(runs, n_epochs, n_threads)

    monkeypatch.setattr(training, "advance", pressed)


@pytest.mark.parametrize(("n_first", "again"), CONTESTS)
@pytest.mark.parametrize("call", [3, 4])  # the race itself takes two
def test_ctrl_c_after_the_race(
    monkeypatch: pytest.MonkeyPatch, n_first: int | None, again: bool, call: int
) -> None:
    given = contest(n_first, again=again)
    before = race(ONE, replace(given, folds=given.first, n_first=None, again=()), Budget((20,)))
    interrupted_at(call, monkeypatch)
    found = race(ONE, given, Budget((20,)))
    assert found.interrupted
    assert not before.interrupted
    assert found.partitions == (given.first,)
    assert found.choice.curves[0].outcome == "trained to the end"
    same_networks(found.checks[0], before.checks[0])


def test_ctrl_c_in_the_second_partition_leaves_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = waves(15)  # too few for a noise network, which the kernel would be called for
    whole = small().fit(X, y)
    calls = 0
    advance = training.advance

    def counting(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return advance(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(training, "advance", counting)
        small().fit(X, y)
    interrupted_at(calls, monkeypatch)  # the last
    with pytest.warns(RuntimeWarning, match="Ctrl-C ended the comparison"):
        model = small().fit(X, y)
    assert (model.n_partitions_, len(model.estimators_)) == (1, 4)
    for ours, theirs in zip(model.estimators_, whole.estimators_[:4], strict=True):
        assert_array_equal(ours.posterior_.m_w[0], theirs.posterior_.m_w[0])
    curve = model.choice_.curves[0]
    assert model.calibration_.factor == curve.factor[curve.n_epochs.index(model.choice_.n_epochs)]
    model.partial_fit(*waves(5, seed=1))
    assert (model.calibration_.squares.n_pooled, model.calibration_.n_rows) == (1, 20)


def not_finite_on(folds: Sequence[Fold], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the check on these folds find predictions that are not finite."""
    check_of = search_module.check_of

    def broken(runner: Any, contest: Contest, own: Sequence[Fold]) -> Check:
        check = check_of(runner, contest, own)
        return replace(check, log_p=np.nan * check.log_p) if own is folds else check

    monkeypatch.setattr(search_module, "check_of", broken)


def test_a_second_partition_that_is_not_finite_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    given = contest(again=True)
    whole = race(ONE, given, Budget((20,)))
    not_finite_on(given.again, monkeypatch)
    found = race(ONE, given, Budget((20,)))
    assert found.partitions == (given.folds,)
    assert len(whole.checks) == 2
    same_networks(found.checks[0], whole.checks[0])
    assert not found.interrupted


def test_later_folds_that_are_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    given = contest(2)
    not_finite_on(given.folds, monkeypatch)
    with pytest.raises(FloatingPointError, match="finite predictions of the rows held out"):
        race(ONE, given, Budget((20,)))


# ---- Time


def timed(monkeypatch: pytest.MonkeyPatch, given: Contest, seconds: float) -> tuple[Race, float]:
    """Run a race where an epoch of a row takes a millisecond per hidden unit."""
    now, advance = 0.0, training.advance

    def slow(runs: Any, n_epochs: int, n_threads: int = 1) -> Any:
        nonlocal now
        now += 1e-3 * n_epochs * sum(len(run.rows.y) * sum(run.plan.hidden) for run in runs)
        return advance(runs, n_epochs, n_threads)

    with monkeypatch.context() as patched:
        patched.setattr(training, "advance", slow)
        found = race(THREE, given, Budget((20, 40, 80), seconds), clock=lambda: now)
    return found, now


@pytest.mark.parametrize(("n_first", "again"), CONTESTS)
@pytest.mark.parametrize("n_epochs", [10, 60])  # of all folds that the winner learns
def test_seconds_are_those_of_all_folds(
    monkeypatch: pytest.MonkeyPatch, n_first: int | None, again: bool, n_epochs: int
) -> None:
    given = contest(n_first, again=again)
    n_folds = len(given.first) + len(given.later)
    seconds = n_epochs * n_folds * 30 * 4 * 1e-3
    found, taken = timed(monkeypatch, given, seconds)
    assert 0.5 * seconds < taken <= seconds
    assert [len(check.fitted) for check in found.checks] == [4] * (1 + again)
    made = {len(history) for check in found.checks for history in check.history}
    assert made == {found.choice.n_epochs}


@pytest.mark.parametrize(("n_first", "again"), CONTESTS)
def test_the_share_that_is_done_grows_to_the_end(n_first: int | None, again: bool) -> None:
    shares: list[float] = []
    race(THREE, contest(n_first, again=again), Budget((20, 40)), report=shares.append)
    assert sorted(shares) == shares
    assert 0.0 == shares[0] == shares[1] < shares[2]
    assert shares[-2] < shares[-1] == 1.0

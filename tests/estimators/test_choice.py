"""The choice of epochs and memory on held-out rows."""

from __future__ import annotations

import sys
from io import StringIO
from itertools import islice, pairwise, repeat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes

import probprop.estimators.choice
from probprop import PBPRegressor
from probprop.estimators.base import plan_of
from probprop.estimators.choice import (
    MEMORIES,
    Watched,
    best_choice,
    checked_epochs,
    out_of_patience,
    validation_parts,
    watch,
)
from probprop.estimators.data import TrainingData
from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop_lab import datasets


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:150], y[:150]


@pytest.fixture
def short(monkeypatch):
    """Make the longest training 50 epochs."""
    monkeypatch.setattr(probprop.estimators.choice, "_LONGEST", 50)


def training_data(rows) -> TrainingData:
    X, y = rows
    return TrainingData(Inputs(X), y, Gaussian())


def choose(model, rows, seed):
    """Choose what is "auto" in the model, with this seed."""
    data = training_data(rows)
    n_epochs = None if model.n_epochs == "auto" else model.n_epochs
    any_memory = model.memory == "auto"
    plan = plan_of(model, data.likelihood, None if any_memory else model.memory)
    return probprop.estimators.choice.choose(
        plan, data, n_epochs, seed, any_memory=any_memory, show=bool(model.verbose)
    )


def auto(**params) -> PBPRegressor:
    return PBPRegressor(
        **{
            "hidden_layer_sizes": 5,
            "n_epochs": "auto",
            "memory": "auto",
            "random_state": 0,
            **params,
        }
    )


def watched(memory, n_epochs, scores) -> Watched:
    return Watched(memory, n_epochs, np.array(scores, float))


# ---- The rule


def test_the_best_pair_is_chosen_when_it_is_clearly_better():
    random = np.random.RandomState(0)
    usual = random.standard_normal(200)
    better, best = usual + 0.2, usual + 0.5 + 0.1 * random.standard_normal(200)
    found = best_choice(
        [
            watched(None, [20, 40], [usual - 1.0, usual]),
            watched(3.0, [20, 40, 100], [usual - 1.0, better, best]),
        ],
        usual=40,
    )
    assert (found.memory, found.n_epochs, found.n_rows) == (3.0, 100, 200)
    difference = best - usual
    assert found.gain == pytest.approx(difference.mean())
    assert found.gain_error == pytest.approx(difference.std(ddof=1) / np.sqrt(200))
    assert found.curves[1].n_epochs == (20, 40, 100)
    assert_allclose(found.curves[0].log_likelihood, [(usual - 1.0).mean(), usual.mean()])


def test_one_outlier_does_not_rule_the_choice():
    """Its mean is better by 0.05, all of it from one row of 200."""
    usual = np.zeros(200)
    usual[7] = -15.0
    other = np.full(200, -0.025)
    assert other.mean() > usual.mean()
    found = best_choice([watched(None, [40], [usual]), watched(3.0, [40], [other])], usual=40)
    assert (found.memory, found.n_epochs) == (None, 40)
    assert 0.0 < found.gain < found.gain_error


def test_equal_scores_leave_the_usual_choice():
    scores = np.random.RandomState(0).standard_normal(50)
    found = best_choice([watched(3.0, [40], [scores]), watched(10.0, [40], [scores])], usual=40)
    assert (found.memory, found.n_epochs, found.gain, found.gain_error) == (3.0, 40, 0.0, 0.0)


# ---- Where and how long


@given(n=st.integers(1, 10**8))
def test_checked_epochs_rise_and_have_the_usual_number(n):
    checks = checked_epochs(n)
    assert 40 in checks
    assert all(a < b for a, b in pairwise(checks))
    assert checks[-1] == 1000 or checks[-1] * 1.3 * n > 4e6 or checks[-1] == 40


@settings(max_examples=30, deadline=None)
@given(n=st.integers(20, 20_000), seed=st.integers(0, 100))
def test_parts_hold_out_each_row_once_or_a_tenth(n, seed):
    parts = validation_parts(n, seed)
    for train, held_out in parts:
        assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(n))
    held_out = np.sort(np.concatenate([h for _, h in parts]))
    if n < 5000:
        assert_array_equal(held_out, np.arange(n))
    else:
        assert len(held_out) == n // 10


def test_the_held_out_part_of_a_very_large_set_stays_small():
    ((train, held_out),) = validation_parts(1_000_000, 0)
    assert (len(train), len(held_out)) == (990_000, 10_000)


def test_held_out_scores_are_those_of_separate_fits(diabetes):
    X, y = diabetes
    parts = validation_parts(len(y), 5)
    data = training_data(diabetes)
    plan = plan_of(auto(), data.likelihood, 3.0)
    (found,) = watch([plan], data, parts, [2, 5], seed=7)
    assert found.n_epochs == [2, 5]
    for scores, n_epochs in zip(found.log_likelihood, [2, 5], strict=True):
        expected = []
        for train, held_out in parts:
            fit = PBPRegressor(5, n_epochs=n_epochs, memory=3.0, random_state=7)
            fit.fit(X[train], y[train])
            expected.append(fit.predict_distribution(X[held_out]).logpdf(y[held_out]))
        assert_array_equal(scores, np.concatenate(expected))


def test_training_ends_when_the_held_out_rows_get_no_better(diabetes):
    """A linear model has learned all there is after a few epochs."""
    model = auto(hidden_layer_sizes=(), memory=None)
    (curve,) = choose(model, diabetes, 0).curves
    assert curve.n_epochs[-1] < 1000
    checks = len(curve.n_epochs)
    assert checks - np.argmax(curve.log_likelihood) == 5 or curve.n_epochs[-1] == 40


@pytest.mark.parametrize(("best", "expected"), [(0, True), (1, False), (4, False)])
def test_patience_is_for_four_checks_after_the_best(best, expected):
    means = np.zeros(5)
    means[best] = 1.0
    assert out_of_patience([np.array([m, m]) for m in means]) == expected


@pytest.mark.usefixtures("short")
def test_the_bar_is_full_at_the_end_and_cleared(diabetes, monkeypatch):
    class Terminal(StringIO):
        def isatty(self):
            return True

    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    choose(auto(verbose=1), diabetes, 0)
    drawn = out.getvalue().split("\r")
    assert drawn[1].startswith("choosing epochs and memory [")
    assert drawn[-2] == f"choosing epochs and memory [{'#' * 24}]\x1b[K"
    assert drawn[-1] == "\x1b[K"


# ---- The estimator


@pytest.mark.usefixtures("short")
def test_the_fit_is_that_of_the_chosen_pair(diabetes):
    model = auto().fit(*diabetes)
    fixed = PBPRegressor(
        5, n_epochs=model.choice_.n_epochs, memory=model.choice_.memory, random_state=0
    ).fit(*diabetes)
    assert_array_equal(model.predict(diabetes[0]), fixed.predict(diabetes[0]))
    assert model.n_iter_ == model.choice_.n_epochs
    assert [curve.memory for curve in model.choice_.curves] == list(MEMORIES)
    assert (model.n_epochs, model.memory) == ("auto", "auto")
    assert clone(model).get_params() == model.get_params()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("random_state", [3, "RandomState"])
def test_a_choice_that_stays_with_the_usual_is_the_fit_without_auto(
    diabetes, monkeypatch, random_state
):
    def state():
        return np.random.RandomState(3) if random_state == "RandomState" else random_state

    monkeypatch.setattr(probprop.estimators.choice, "MEMORIES", (None,))
    monkeypatch.setattr(probprop.estimators.choice, "checked_epochs", lambda n: [40])
    model = auto(random_state=state()).fit(*diabetes)
    usual = PBPRegressor(5, random_state=state()).fit(*diabetes)
    assert_array_equal(model.predict(diabetes[0]), usual.predict(diabetes[0]))


@pytest.mark.usefixtures("short")
def test_only_what_is_auto_is_chosen(diabetes):
    memory = auto(n_epochs=30).fit(*diabetes).choice_
    assert memory.n_epochs == 30
    assert {curve.n_epochs for curve in memory.curves} == {(30,)}
    n_epochs = auto(memory=10.0).fit(*diabetes).choice_
    assert n_epochs.memory == 10.0
    assert [curve.memory for curve in n_epochs.curves] == [10.0]


@pytest.mark.usefixtures("short")
def test_threads_do_not_change_the_choice(diabetes, monkeypatch):
    found = choose(auto(), diabetes, 1)
    monkeypatch.setattr(probprop.estimators.choice.joblib, "effective_n_jobs", lambda n_jobs: 1)
    assert choose(auto(), diabetes, 1) == found


def test_too_few_rows_for_a_choice_get_the_usual_one():
    X = np.arange(19.0)[:, None]
    model = auto().fit(X, X[:, 0])
    assert (model.choice_.n_epochs, model.choice_.memory, model.choice_.n_rows) == (40, None, 0)


@pytest.mark.usefixtures("short")
def test_partial_fit_goes_on_with_the_chosen_memory(diabetes, monkeypatch):
    monkeypatch.setattr(probprop.estimators.choice, "MEMORIES", (3.0,))
    X, y = diabetes
    model = auto().fit(X, y)
    fixed = PBPRegressor(5, n_epochs=model.choice_.n_epochs, memory=3.0, random_state=0).fit(X, y)
    for m in (model, fixed):
        m.partial_fit(X[:20], y[:20])
    assert_array_equal(model.predict(X), fixed.predict(X))


def test_partial_fit_before_any_fit_has_no_bound(diabetes):
    X, y = diabetes
    found = auto().partial_fit(X, y).partial_fit(X, y)
    expected = PBPRegressor(5, random_state=0).partial_fit(X, y).partial_fit(X, y)
    assert_array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_epochs": "many"}, ValueError, r"n_epochs must be one of \['auto'\]. Got 'many'"),
        ({"memory": "some"}, ValueError, r"memory must be one of \['auto'\]. Got 'some'"),
        ({"memory": [3.0]}, TypeError, "memory must be an instance of float"),
    ],
)
def test_other_words_are_refused(diabetes, params, error, message):
    with pytest.raises(error, match=message):
        auto(**params).fit(*diabetes)


def test_an_error_while_choosing_leaves_the_estimator_as_it_was(diabetes, monkeypatch):
    X, y = diabetes
    model = PBPRegressor(5, n_epochs=2, random_state=0).fit(X, y)
    before = model.predict(X)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(n_epochs="auto").fit(X[:, :3], y)
    assert_array_equal(model.predict(X), before)


def test_on_yacht_the_choice_is_far_better_than_the_usual_one(monkeypatch):
    monkeypatch.setattr(probprop.estimators.choice, "_LONGEST", 300)  # not to wait for more
    if datasets.where("yacht") is None:
        pytest.skip("the yacht data are not here: set PROBPROP_DATA")
    data, (train, test) = datasets.load("yacht"), datasets.splits("yacht")[0]
    X, y = data.X[train], data.y[train]
    model = auto(hidden_layer_sizes=(50,))
    usual = PBPRegressor(random_state=0).fit(X, y)
    scores = [
        m.predict_distribution(data.X[test]).logpdf(data.y[test]).mean()
        for m in (model.fit(X, y), usual)
    ]
    assert scores[0] > scores[1] + 0.5
    assert model.choice_.memory is not None


def test_steps_of_a_training_are_those_of_one(diabetes):
    data, random_state = training_data(diabetes), np.random.RandomState(0)
    plan = Plan(data.likelihood, hidden=(2,))
    before = training.start(plan, data.X, data.y, random_state)
    run = training.begin(plan, before, data.X, data.y, random_state)
    states = training.train(run, repeat(1))
    made = [epoch for state in islice(states, 50) for epoch in state.made]
    assert [epoch.n_iter for epoch in made] == list(range(1, 51))
    assert made == PBPRegressor(2, n_epochs=50, random_state=0).fit(*diabetes).history_

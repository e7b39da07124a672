"""Choosing by evidence: the sums are those of the chain rule, and the better model wins."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

from probprop import PBPRegressor, select
from probprop.estimators.selection import EvidenceSelection, evidence_of_blocks, orderings
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, run_job
from probprop_lab.experiments.beyond import evidence
from probprop_lab.experiments.harness import report

LINEAR, SMALL = {"hidden_layer_sizes": ()}, {"hidden_layer_sizes": (10,)}


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    return X[:150], y[:150]


def fast(**params: Any) -> PBPRegressor:
    return PBPRegressor(**{"n_epochs": 5, "random_state": 0, **params})


# ---- The sums


def test_the_first_pass_of_a_line_is_its_sequential_prediction() -> None:
    # A line whose noise is all but known, one row at a time: independent weights with means m and
    # variances v predict N(x m, x^2 v + noise), and the update is that of a Kalman filter which
    # forgets the correlations.
    random = np.random.RandomState(0)
    X = random.standard_normal((200, 2))
    y = X @ [1.0, -0.5] + 0.5 * random.standard_normal(200)
    A = np.column_stack([X, np.ones(200)]) / np.sqrt(3.0)  # (200, 3)
    known = {"noise_shape": 1e8, "noise_rate": 0.25e8}
    model = PBPRegressor((), standardize=False, random_state=0, **known)
    found = select(model, [{}], X, y, evidence="first_pass", n_orderings=10)
    for seed, value in zip(orderings(0, 10), found.log_evidence[0], strict=True):
        seeded = np.random.RandomState(seed)
        m, v = seeded.standard_normal(3) / np.sqrt(3.0), np.full(3, 6.0 / 5.0)
        total = 0.0
        for i in seeded.permutation(200):
            variance = A[i] ** 2 @ v + 0.25
            error = y[i] - A[i] @ m
            total += stats.norm.logpdf(error, 0.0, np.sqrt(variance))
            m = m + v * A[i] * error / variance
            v = v - (v * A[i]) ** 2 / variance
        assert value == pytest.approx(total, rel=1e-5)
    # With the correlations, and means that begin at zero, it has a closed form.
    covariance = 0.25 * np.eye(200) + 1.2 * A @ A.T
    quadratic = y @ np.linalg.solve(covariance, y)
    exact = -0.5 * (quadratic + np.linalg.slogdet(2.0 * np.pi * covariance)[1])
    assert found.mean[0] == pytest.approx(exact, abs=3.0)


def test_blocks_are_predicted_from_those_before(diabetes) -> None:
    X, y = diabetes
    found = select(fast(), [SMALL], X, y, n_orderings=2)
    for seed, value in zip(orderings(0, 2), found.log_evidence[0], strict=True):
        order = np.random.RandomState(seed).permutation(150)
        total = 0.0
        for start, end in ((18, 37), (37, 75), (75, 150)):  # 150/8, 150/4, 150/2, 150
            model = fast(hidden_layer_sizes=(10,), random_state=seed)
            model.fit(X[order[:start]], y[order[:start]])
            mean, std = model.predict(X[order[start:end]], return_std=True)
            total += stats.norm.logpdf(y[order[start:end]], mean, std).sum()
        assert value == pytest.approx(total, rel=1e-12)
    assert found.n_scored == 150 - 18


def test_blocks_of_a_line_give_its_exact_evidence() -> None:
    # With many passes the posterior of a line collapses on the least squares of the rows so far,
    # so that the evidence is that of plug-in predictions with the known noise.
    random = np.random.RandomState(1)
    X = random.standard_normal((320, 2))
    y = X @ [1.0, -0.5] + 0.5 * random.standard_normal(320)
    known = {"noise_shape": 1e7, "noise_rate": 0.25e7}
    model = PBPRegressor((), standardize=False, n_epochs=200, **known)
    order = np.random.RandomState(7).permutation(320)
    expected = 0.0
    for start, end in ((40, 80), (80, 160), (160, 320)):
        A = np.column_stack([X, np.ones(320)])[order]
        weights = np.linalg.lstsq(A[:start], y[order[:start]], rcond=None)[0]
        errors = y[order[start:end]] - A[start:end] @ weights
        expected += stats.norm.logpdf(errors, 0.0, 0.5).sum()
    assert evidence_of_blocks(model, X, y, seed=7) == pytest.approx(expected, abs=0.3)


def test_the_first_pass_is_that_of_single_fits(diabetes) -> None:
    X, y = diabetes
    found = select(fast(), [LINEAR, SMALL], X, y, evidence="first_pass", n_orderings=4)
    by_hand = [
        [
            PBPRegressor(**params, random_state=seed).fit(X, y).log_evidence_
            for seed in orderings(0, 4)
        ]
        for params in (LINEAR, SMALL)
    ]
    assert_allclose(found.log_evidence, by_hand, rtol=1e-12)
    assert_allclose(found.mean, np.mean(by_hand, axis=1), rtol=1e-12)
    assert found.n_scored == 150


@pytest.mark.parametrize("kind", ["blocks", "first_pass"])
def test_a_scaled_target_shifts_all_alike(diabetes, kind) -> None:
    X, y = diabetes
    one, scaled = (
        select(fast(), [LINEAR, SMALL], X, factor * y, evidence=kind) for factor in (1.0, 1000.0)
    )
    shift = one.n_scored * np.log(1000.0)
    assert_allclose(scaled.log_evidence, one.log_evidence - shift, rtol=1e-9)
    assert_allclose(scaled.behind, one.behind, rtol=1e-6)


# ---- The choice


@pytest.mark.parametrize("kind", ["blocks", "first_pass"])
def test_a_network_wins_on_a_curve_and_a_line_on_a_line(kind) -> None:
    random = np.random.RandomState(0)
    X = random.uniform(-3.0, 3.0, (400, 2))
    noise = 0.1 * random.standard_normal(400)
    candidates = [{"hidden_layer_sizes": (50,)}, LINEAR]
    model = PBPRegressor(random_state=0)
    curve = select(model, candidates, X, X[:, 0] ** 2 - X[:, 1] + noise, evidence=kind)
    assert curve.best_params == {"hidden_layer_sizes": (50,)}
    assert curve.behind[1] > 5.0 * curve.behind_se[1] > 0.0
    line = select(model, candidates, X, X[:, 0] - X[:, 1] + noise, evidence=kind)
    assert line.best_params == LINEAR
    assert line.best_estimator.posterior_.layer_sizes == (2, 1)


def test_other_parameters_can_be_compared() -> None:
    random = np.random.RandomState(0)
    X = random.uniform(-2.0, 2.0, (200, 1))
    y = X[:, 0] ** 2 + 0.1 * random.standard_normal(200)
    epochs = select(PBPRegressor(random_state=0), [{"n_epochs": 1}, {"n_epochs": 40}], X, y)
    assert epochs.best_params == {"n_epochs": 40}
    assert epochs.best_estimator.n_iter_ == 40
    priors = [{"noise_shape": 1e3, "noise_rate": rate * 1e3} for rate in (0.1, 1.0, 10.0)]
    y = random.standard_normal(200)  # noise of variance 1, once standardised
    assert select(fast(), priors, X, y, evidence="first_pass").best_index == 1


def test_the_best_is_fitted_on_all_rows_with_its_own_seed(diabetes) -> None:
    X, y = diabetes
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    model = fast(random_state=3)
    found = select(model, [SMALL, LINEAR], frame, y)
    expected = clone(model).set_params(**found.best_params).fit(X, y).predict(X)
    assert_array_equal(found.best_estimator.predict(frame), expected)
    assert found.best_estimator.feature_names_in_[0] == "x0"
    assert not hasattr(model, "posterior_")
    assert model.hidden_layer_sizes == (50,)


def test_seeds_repeat_and_threads_change_nothing(diabetes) -> None:
    candidates = [LINEAR, SMALL, {"hidden_layer_sizes": (5, 5)}]
    one, again, threads = (
        select(fast(), candidates, *diabetes, n_jobs=n_jobs) for n_jobs in (None, None, 4)
    )
    assert_array_equal(one.log_evidence, again.log_evidence)
    assert_array_equal(one.log_evidence, threads.log_evidence)
    X = diabetes[0]
    assert_array_equal(one.best_estimator.predict(X), threads.best_estimator.predict(X))
    other = select(fast(random_state=1), candidates, *diabetes)
    assert not np.allclose(one.log_evidence, other.log_evidence)


def test_candidates_share_their_orderings(diabetes) -> None:
    found = select(fast(), [SMALL, dict(SMALL), {}], *diabetes)
    assert_array_equal(found.log_evidence[0], found.log_evidence[1])
    assert found.best_index != 1  # the first of equal ones
    assert_array_equal(found.log_evidence[2], select(fast(), [{}], *diabetes).log_evidence[0])


# ---- What it shows


def test_the_best_the_gaps_and_the_table() -> None:
    scores = np.array([[-110.0, -120.0], [-100.0, -104.0]])
    found = EvidenceSelection((LINEAR, {**SMALL, "n_epochs": 7}), scores, 50, None)
    assert_array_equal(found.mean, [-115.0, -102.0])
    assert found.best_params == {"hidden_layer_sizes": (10,), "n_epochs": 7}
    assert_array_equal(found.behind, [13.0, 0.0])
    assert_allclose(found.behind_se, [3.0, 0.0])  # of 10 and 16
    assert repr(found).splitlines() == [
        "candidate                             log evidence  per row  behind the best",
        "hidden_layer_sizes=()                       -115.0   -2.300       13.0 ± 3.0",
        "hidden_layer_sizes=(10,), n_epochs=7        -102.0   -2.040             best",
    ]
    single = EvidenceSelection(({}, LINEAR), scores[:, :1], 50, None)
    assert np.isnan(single.behind_se).all()
    assert "as it is                     -110.0   -2.200             10.0" in repr(single)


# ---- What is refused


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"candidates": SMALL}, TypeError, "candidates must be a sequence of dicts"),
        ({"candidates": [(50,)]}, TypeError, r"each of candidates must be a dict .* Got \(50,\)"),
        ({"candidates": []}, ValueError, "at least one dict of parameters. Got none"),
        ({"candidates": [{"depth": 2}]}, ValueError, "Invalid parameter 'depth' for estimator PBP"),
        ({"candidates": [{"random_state": 2}]}, ValueError, "random_state cannot be compared"),
        ({"candidates": [{"hidden_layer_sizes": (0,)}]}, ValueError, "hidden_layer_sizes == 0"),
        ({"evidence": "laplace"}, ValueError, r"evidence must be one of \['blocks', 'first_pass'"),
        ({"n_orderings": 0}, ValueError, "n_orderings == 0, must be >= 1"),
        (
            {"candidates": [{"n_epochs": 2}], "evidence": "first_pass"},
            ValueError,
            "n_epochs cannot be compared by evidence='first_pass'",
        ),
        (
            {"candidates": [{"memory": 3.0}], "evidence": "first_pass"},
            ValueError,
            "memory cannot be compared by evidence='first_pass'",
        ),
        ({"n_jobs": 0}, ValueError, "n_jobs == 0"),
        ({"estimator": BayesianRidge()}, TypeError, "a PBPRegressor, .* Got BayesianRidge instead"),
        ({"X": np.ones((7, 1)), "y": np.ones(7)}, ValueError, "minimum of 8 is required by select"),
        ({"y": np.ones(149)}, ValueError, "inconsistent numbers of samples"),
    ],
)
def test_what_it_cannot_do_is_said(diabetes, arguments, error, message) -> None:
    usual = {"estimator": fast(), "candidates": [{}], "X": diabetes[0], "y": diabetes[1]}
    with pytest.raises(error, match=message):
        select(**{**usual, **arguments})


def test_eight_rows_are_enough() -> None:
    X = np.arange(8.0)[:, None]
    found = select(fast(), [LINEAR], X, X[:, 0])
    assert np.isfinite(found.log_evidence).all()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.process
def test_ctrl_c_ends_it(tmp_path, n_jobs) -> None:
    script = f"""
import numpy as np
from probprop import PBPRegressor, select
random = np.random.RandomState(0)
X, y = random.standard_normal((400, 20)), random.standard_normal(400)
print("ready", flush=True)
try:
    select(PBPRegressor(n_epochs=300), [{{}}] * 1000, X, y, n_jobs={n_jobs})
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
    assert process.returncode == 0


# ---- The study on the benchmark sets


@pytest.fixture
def one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_diabetes(return_X_y=True)
    parts = X[:150], y[:150], X[150:], y[150:]
    monkeypatch.setattr(evidence.benchmark, "load_split", lambda dataset, split: parts)


def test_the_study_measures_what_select_finds(one_split, diabetes) -> None:
    networks = [(), (10,)]
    rows = [
        run_job(Job("evidence", "yacht", 0, seed=4, hidden=hidden, n_epochs=3))
        for hidden in networks
    ]
    model = PBPRegressor(n_epochs=3, random_state=4)
    candidates = [{"hidden_layer_sizes": hidden} for hidden in networks]
    for kind in ("blocks", "first_pass"):
        found = select(model, candidates, *diabetes, evidence=kind)
        assert_allclose([row[kind] for row in rows], found.log_evidence, rtol=1e-12)
    assert all(len(row["folds"]) == 5 for row in rows)


def made_rows(split: int, log_likelihoods: list[float], blocks: list[list[float]]) -> list[dict]:
    return [
        {
            **Job("evidence", "yacht", split, hidden=hidden).fields,
            "log_likelihood": log_likelihood,
            "blocks": scores,
            "first_pass": [float(-len(hidden))] * 3,
            "folds": [log_likelihood] * 5,
            "blocks_seconds": 0.3,
            "first_pass_seconds": 0.01,
            "folds_seconds": 0.5,
        }
        for hidden, log_likelihood, scores in zip(
            evidence.NETWORKS, log_likelihoods, blocks, strict=True
        )
    ]


def test_the_records_of_the_study() -> None:
    scores = [-5.0, -4.0, -2.0, -3.0, -1.0, -6.0]
    first = made_rows(0, scores, [[s, s, s] for s in scores])
    second = made_rows(1, scores, [[9.0, 0.0, 0.0], *[[s, 7.0, 7.0] for s in scores[1:]]])
    incomplete = made_rows(2, scores, [[0.0] * 3] * 6)[:5]
    found = {r["chooser"]: r for r in evidence.records([*first, *second, *incomplete])}
    blocks = found["evidence in blocks"]  # 50-50 in both: -1 + 7 + 7 is above 9
    assert (blocks["n_splits"], blocks["n_best"], blocks["regret"]) == (2, 2, 0.0)
    assert blocks["seconds"] == pytest.approx(6 * 0.3)
    one = found["evidence in blocks, one ordering"]
    assert (one["n_best"], one["regret"], one["regret_se"]) == (1, 2.0, 2.0)
    assert one["chosen"] == "50-50 (1), linear (1)"
    assert one["seconds"] == pytest.approx(6 * 0.1)
    assert found["evidence of the first pass"]["regret"] == 4.0
    assert found["5-fold cross-validation"]["n_best"] == 2
    assert found["always 50 units"]["regret"] == 1.0
    assert found["always 50 units"]["seconds"] == 0.0
    line = evidence.notes(list(found.values()))[3]
    assert line.startswith("evidence of the first pass: best on 0 of 2 splits; 4.000 behind")


def test_the_study_has_its_jobs() -> None:
    jobs = EXPERIMENTS["evidence"].jobs(Selection(["yacht"], 2))
    assert [job.hidden for job in jobs[::2]] == list(evidence.NETWORKS)
    with pytest.raises(ValueError, match="evidence has the method PBP only"):
        EXPERIMENTS["evidence"].jobs(Selection(["yacht"], methods=["VI"]))


RESULTS = Path(__file__).parents[2] / "docs" / "results"


def committed() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / "evidence.jsonl").read_text().splitlines()]


def test_the_table_of_the_documentation_is_that_of_the_rows() -> None:
    rows, experiment = committed(), EXPERIMENTS["evidence"]
    assert report.markdown(experiment, rows) == (RESULTS / "evidence.md").read_text()
    table = list(csv.DictReader(io.StringIO(report.csv_text(experiment, rows))))
    assert len(table) == 5 * len({row["dataset"] for row in rows})


def test_evidence_in_blocks_chooses_better_than_the_default_and_the_first_pass() -> None:
    records = evidence.records(committed())
    behind = {
        c.label: np.mean([r["regret"] for r in records if r["chooser"] == c.label])
        for c in evidence.CHOOSERS
    }
    assert behind["evidence in blocks"] < 0.5 * behind["always 50 units"]
    assert behind["always 50 units"] < behind["evidence of the first pass"]

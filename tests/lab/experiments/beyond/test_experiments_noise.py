"""`reproduce noise`: the jobs, one fit, the paired differences, the notes, the picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor
from probprop.cli.application import run as run_command
from probprop.metrics import interval_coverage, summary
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, cost, run_job
from probprop_lab.experiments.beyond import noise, noise_sets
from probprop_lab.experiments.harness import methods

NOISE = EXPERIMENTS["noise"]
OURS = ["constant", "input"]
Row = dict[str, Any]


def row(dataset: str, method: str, split: int, value: float, *, seconds: float = 1.0) -> Row:
    """A row as the runner keeps it, with this log-likelihood."""
    job = Job("noise", dataset, split, method, seed=split)
    scores = {"log_likelihood": value, "rmse": 2.0 + split, "coverage_95": 0.95}
    found = {**job.fields, **scores, "seconds": seconds, "warnings": []}
    if method != "NGBoost":
        found["quintiles"] = [0.9, 0.95, 0.95, 0.95, 1.0]
    if method == "input":
        found["quintiles_of_constant"] = [1.0, 1.0, 1.0, 1.0, 0.5]
    return found


def pair(dataset: str, gains: list[float]) -> list[Row]:
    """Constant noise, and noise="input" above it by these gains."""
    rows = [row(dataset, "constant", i, float(i)) for i in range(len(gains))]
    return rows + [row(dataset, "input", i, i + g, seconds=1.5) for i, g in enumerate(gains)]


ROWS = [
    *pair("yacht", [0.4, 0.6]),
    row("yacht", "NGBoost", 1, 2.6),
    *pair("energy", [-0.1, -0.3]),
    *pair("made_100x3", [-0.02, -0.04]),
]


# ---- The jobs


def test_the_default_is_nine_sets_deep_networks_and_synthetic_data() -> None:
    jobs = NOISE.jobs(Selection(methods=OURS))
    assert len(jobs) == 2 * (5 * 20 + 4 * 3 + 5 * 5 + len(noise_sets.SIZES) * noise_sets.N_REPEATS)
    assert {job.n_epochs for job in jobs} == {40}
    assert {job.hidden for job in jobs if job.dataset == "protein"} == {(100,)}
    assert {job.split for job in jobs if len(job.hidden) == 2} == set(range(5))
    first, second = jobs[:2]  # one after the other, with the same seed
    assert (first.split, first.seed, first.hidden) == (second.split, second.seed, second.hidden)
    assert [first.method, second.method] == OURS


def test_a_selection_is_obeyed() -> None:
    jobs = NOISE.jobs(Selection(["kin8nm", "made_100x1"], 4, seed=2, methods=["input"]))
    assert [(job.dataset, job.seed) for job in jobs] == [
        (name, 2000 + split) for name in ("kin8nm", "made_100x1") for split in range(4)
    ]
    with pytest.raises(ValueError, match="has the methods constant, input, NGBoost only, not PBP"):
        NOISE.jobs(Selection(methods=["PBP"]))
    with pytest.raises(ValueError, match="unknown data set made_7x7"):
        NOISE.jobs(Selection(["made_7x7"]))


def test_trees_are_grown_once_per_split_of_a_real_set() -> None:
    jobs = NOISE.jobs(Selection(["yacht", "made_100x1"], 3, methods=["NGBoost"]))
    assert [(job.dataset, job.hidden) for job in jobs] == [("yacht", (50,))] * 3
    installed = methods.KNOWN["NGBoost"].installed
    assert ("NGBoost" in {job.method for job in NOISE.jobs(Selection(["yacht"]))}) == installed


def test_costs_grow_with_rows_and_with_the_second_network() -> None:
    def work(dataset: str, method: str) -> float:
        return cost(Job("noise", dataset, 0, method))

    assert work("yacht", "input") > work("yacht", "constant")
    assert work("made_300x3", "constant") == pytest.approx(3 * work("made_100x3", "constant"))


# ---- One fit


def test_synthetic_noise_is_the_same_everywhere() -> None:
    X, y, X_test, y_test = noise_sets.load("made_3000x5", 0)
    assert (X.shape, X_test.shape) == ((3000, 5), (noise_sets.N_TEST, 5))
    for rows, targets in ((X, y), (X_test, y_test)):
        residuals = targets - noise_sets.truth(rows)
        near = np.abs(rows[:, 0]) < 1.0
        for part in (near, ~near):
            assert residuals[part].std() == pytest.approx(noise_sets.NOISE_STD, rel=0.12)
    assert not np.array_equal(y, noise_sets.load("made_3000x5", 1)[1])


def test_rows_are_fits_with_the_same_mean(every_split_is: Callable[..., None]) -> None:
    X, y = load_diabetes(return_X_y=True)
    parts = X[:150], y[:150], X[150:200], y[150:200]
    every_split_is(parts)
    found = {
        name: run_job(Job("noise", "yacht", 0, name, seed=7, hidden=(4,), n_epochs=8))
        for name in OURS
    }
    assert json.loads(json.dumps(found)) == found
    assert found["constant"]["rmse"] == found["input"]["rmse"]
    for name in ("constant", "input"):
        model = PBPRegressor(4, n_epochs=8, random_state=7).set_params(noise=name)
        predicted = model.fit(*parts[:2]).predict_distribution(parts[2])
        expected = summary(parts[3], predicted)
        assert_allclose(found[name]["log_likelihood"], expected["log_likelihood"], rtol=1e-12)
        if name == "constant":
            constant = predicted
    # The fit without the noise network, in the fifths that the other makes.
    order = np.argsort(predicted.std, kind="stable").reshape(5, 10)
    lower, upper = constant.interval(0.95)
    covered = [interval_coverage(parts[3][k], lower[k], upper[k]) for k in order]
    assert_array_equal(found["input"]["quintiles_of_constant"], covered)


def test_quintiles_are_of_the_rows_in_the_order_of_their_std() -> None:
    model = PBPRegressor(4, n_epochs=2, random_state=0).fit(np.eye(5), np.arange(5.0))
    y = model.predict(np.eye(5)) + np.array([1e6, 0.0, 0.0, 0.0, 0.0])
    predicted = model.predict_distribution(np.eye(5))
    assert noise.by_quintile(y, predicted, np.array([9.0, 1, 2, 3, 4])) == [1, 1, 1, 1, 0]


# ---- The tables


def test_methods_of_a_set_are_side_by_side() -> None:
    records = {record["dataset"]: record for record in NOISE.records(ROWS)}
    assert list(records) == ["energy", "yacht", "made_100x3"]
    yacht = records["yacht"]
    assert (yacht["gain"], yacht["gain_se"]) == (pytest.approx(0.5), pytest.approx(0.1))
    assert (yacht["rmse_ratio"], yacht["slower"]) == (1.0, 1.5)
    assert yacht["over_trees"] == pytest.approx(1.6 - 2.6)  # on the split that both have
    assert yacht["NGBoost_log_likelihood"] == 2.6
    assert (yacht["input_quintile_1"], yacht["constant_same_rows_5"]) == (0.9, 0.5)
    assert records["energy"]["NGBoost_log_likelihood"] is None
    alone = NOISE.records([row("yacht", "NGBoost", 0, 1.0)])
    assert (alone[0]["gain"], alone[0]["slower"]) == (None, None)


def test_the_notes_say_where_it_gains_and_where_it_loses() -> None:
    notes = NOISE.notes(NOISE.records(ROWS))
    assert (
        'one hidden layer: noise="input" has the better log-likelihood on 1 of 2 sets, by more '
        "than two standard errors on 1, and the worse by as much on none" in notes
    )
    assert any("worse by as much on made_100x3 (-0.030 ± 0.010)" in note for note in notes)
    assert "the RMSE is the same to the last bit in 6 of 6 pairs of fits" in notes
    other = [r | {"rmse": 1.0} if r["method"] == "input" else r for r in ROWS]
    assert not any("last bit" in note for note in NOISE.notes(NOISE.records(other)))


def test_the_picture_has_a_panel_for_each_question() -> None:
    [(figure, words)] = NOISE.figures(ROWS)
    gains, coverages, made = figure.axes
    assert [label.get_text() for label in gains.get_yticklabels()] == ["energy", "yacht"]
    assert_allclose(gains.containers[0].lines[0].get_xdata(orig=False), [-0.2, 0.5])
    assert len(coverages.lines) == 2 * (2 + 1) + 1  # sets and their mean, twice; 95 %
    assert_allclose(made.containers[0].lines[0].get_ydata(orig=False), [-0.03])
    assert words.endswith("energy, yacht, synthetic")
    assert len(NOISE.figures(ROWS[:4])[0][0].axes) == 2
    assert NOISE.figures(ROWS[:1]) == []


def test_the_command_shows_a_file_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in ROWS))
    arguments = ["reproduce", "noise", "--show", "--method", ",".join(noise.METHODS)]
    arguments += ["--results", str(path), "--markdown", str(tmp_path / "table.md")]
    assert run_command(arguments) == 0
    assert "above NGBoost" in capsys.readouterr().out
    text = (tmp_path / "table.md").read_text()
    assert "| yacht | 50 | 2 | 0.50 ± 0.50 | 1.00 ± 0.60 | 0.50 ± 0.10 | 2.6 | -1 | 1 |" in text
    assert "| yacht | 50 | constant | 100.0 % | 100.0 % | 100.0 % | 100.0 % | 50.0 % |" in text

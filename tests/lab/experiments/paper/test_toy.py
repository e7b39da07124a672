"""The toy figure: the band, its distance from HMC's, and a panel per method."""

from __future__ import annotations

from typing import Any

import numpy as np

from probprop_lab.experiments import EXPERIMENTS, Job, Selection, run_job

Row = dict[str, Any]


def test_the_toy_band_is_narrow_at_the_data_and_grows_outside() -> None:
    row = run_job(EXPERIMENTS["toy"].jobs(Selection(methods=["PBP"]))[0])
    x, mean, std = (np.array(row[k]) for k in ("x", "mean", "std"))
    inside = np.abs(x) < 3.0
    assert std[inside].max() < 0.8 * min(std[0], std[-1])
    assert np.all(np.diff(std[x > 4.0]) > 0.0)
    assert np.all(np.diff(std[x < -4.0]) < 0.0)
    assert np.abs(mean[inside] - x[inside] ** 3).max() < 3.0 * std[inside].max()
    assert len(row["x_data"]) == 20
    ((figure, words),) = EXPERIMENTS["toy"].figures([row])
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"±3 std", "mean", "truth", "data"}
    assert "PBP" in words


def made_row(job: Job, rmse: float, log_likelihood: float, seconds: float) -> Row:
    scores = {"rmse": rmse, "log_likelihood": log_likelihood, "seconds": seconds}
    return {**job.fields, **scores, "crps": 0.1, "coverage_95": 0.9, "calibration_error": 0.05}


def toy_row(method: str, mean: float, std: float) -> Row:
    job = Job("toy", "toy_cubic", 0, method, hidden=(100,))
    x = np.linspace(-6.0, 6.0, 241)
    row = {**made_row(job, 1.0, -1.0, 1.0), "x": x.tolist(), "x_data": [0.0], "y_data": [0.0]}
    row |= {"mean": np.full(241, mean).tolist(), "std": np.full(241, std).tolist()}
    return {**row, "r_hat": 1.01, "n_divergent": 2} if method.startswith("HMC") else row


def test_the_toy_measures_the_distance_from_hmc() -> None:
    rows = [toy_row("VI", 3.0, 9.0), toy_row("HMC", 1.0, 4.0), toy_row("PBP", -2.0, 5.5)]
    records = EXPERIMENTS["toy"].records(rows)
    assert [r["method"] for r in records] == ["PBP", "VI", "HMC"]
    assert [r["std_from_truth"] for r in records] == [1.5, 5.0, None]
    assert [r["mean_from_truth"] for r in records] == [3.0, 2.0, None]
    notes = EXPERIMENTS["toy"].notes(records)
    assert "HMC: R-hat at most 1.010, 2 divergent draws" in notes
    assert "PBP's standard deviations are nearer to HMC's than VI's are: 1.5 against 5" in notes
    assert "PBP's means are further from HMC's than VI's are: 3 against 2" in notes


def test_the_toy_measures_the_distance_from_both_priors_of_the_noise() -> None:
    rows = [toy_row(*r) for r in (("VI", 3.0, 9.0), ("HMC", 1.0, 4.0), ("HMC weak", -2.0, 5.0))]
    records = EXPERIMENTS["toy"].records([*rows, toy_row("PBP", -2.0, 5.5)])
    assert [r["method"] for r in records] == ["PBP", "VI", "HMC", "HMC weak"]
    assert [r["std_from_truth"] for r in records] == [1.5, 5.0, None, 1.0]
    assert [r["std_from_weak"] for r in records] == [0.5, 4.0, 1.0, None]
    assert [r["mean_from_weak"] for r in records] == [0.0, 5.0, 3.0, None]
    notes = EXPERIMENTS["toy"].notes(records)
    assert "HMC weak: R-hat at most 1.010, 2 divergent draws" in notes
    assert "PBP's means are nearer to HMC weak's than VI's are: 0 against 5" in notes
    assert "PBP's means are further from HMC's than VI's are: 3 against 2" in notes


def test_the_toy_has_one_panel_per_method_and_one_scale() -> None:
    rows = [toy_row(name, 0.0, 4.0) for name in ("PBP", "VI", "BP", "EP", "EBP")]
    rows.append(toy_row("HMC", 0.0, 10.0))
    ((figure, words),) = EXPERIMENTS["toy"].figures(rows)
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in panels] == ["PBP", "VI", "BP", "HMC", "EP", "EBP"]
    assert {ax.get_ylim() for ax in panels} == {(-36.0, 36.0)}
    assert {ax.get_xlim() for ax in panels} == {(-6.0, 6.0)}
    assert words.endswith("PBP, VI, BP, HMC, EP, EBP")


def test_the_toy_without_hmc_says_so() -> None:
    records = EXPERIMENTS["toy"].records([toy_row("PBP", 0.0, 1.0)])
    assert records[0]["std_from_truth"] is None
    assert "HMC, the ground truth, was not run" in EXPERIMENTS["toy"].notes(records)


def test_ebp_runs_on_the_toy_with_nothing_installed() -> None:
    row = run_job(Job("toy", "toy_cubic", 0, "EBP", hidden=(10,), n_epochs=5))
    assert len(row["std"]) == 241
    assert row["method"] == "EBP"

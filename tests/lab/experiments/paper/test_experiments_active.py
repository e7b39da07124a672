"""Active learning as in the paper: what is fitted, what is picked, and the table made of it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

import probprop
import probprop_lab.datasets
from probprop import metrics
from probprop.cli.application import run as run_command
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, cost
from probprop_lab.experiments.harness import methods, protocol
from probprop_lab.experiments.paper import active, active_report, printed

Row = dict[str, Any]
ACTIVE = EXPERIMENTS["active"]
NINE = [name for name in protocol.dataset_names() if name != "year_prediction_msd"]
METHODS = ("PBP", "HMC", "EP", "LA")
X, Y = load_diabetes(return_X_y=True)


def job_of(method: str, repetition: int = 0, seed: int = 3) -> Job:
    return Job("active", "diabetes", repetition, method, seed, hidden=(10,), n_epochs=40)


def learn(method: str, repetition: int = 0, seed: int = 3) -> Row:
    job = job_of(method, repetition, seed)
    return active.learn(job, X, Y, active.split(len(Y), repetition))


def without_times(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "seconds"}


class FarthestFirst:
    """Predicts the mean of what it has seen, less surely the further from it."""

    seen: tuple[tuple[int, int], ...] = ()

    def fit(self, X: np.ndarray, y: np.ndarray) -> FarthestFirst:
        assert len(X) == len(y)
        assert not hasattr(self, "X_"), "fitted twice: not from scratch"
        self.X_, self.mean_ = X, y.mean()
        FarthestFirst.seen += (X.shape,)
        return self

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        distances = np.linalg.norm(X[:, None] - self.X_[None], axis=-1).min(axis=1)
        return np.full(len(X), self.mean_), 1.0 + distances


class Constant(FarthestFirst):
    """As sure of one row as of any other, and warns twice."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> FarthestFirst:
        for _ in range(2):
            warnings.warn("it has not settled", ConvergenceWarning, stacklevel=1)
        return super().fit(X, y)

    def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
        return np.full(len(X), self.mean_), np.ones(len(X))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (FarthestFirst, Constant):
        fake = methods.Method(kind.__name__, lambda job, kind=kind: kind(), 1.0)
        monkeypatch.setitem(methods.KNOWN, kind.__name__, fake)
    FarthestFirst.seen = ()


# ---- The paper's numbers and the jobs


def test_the_printed_numbers() -> None:
    cells = {
        (name, f"{method}-{way}"): printed.active(name, f"{method}-{way}")
        for name in NINE
        for method in METHODS
        for way in "AR"
    }
    assert None not in cells.values()
    assert str(cells["boston_housing", "LA-R"]) == "9.600 ± 0.154"
    assert str(cells["power_plant", "EP-A"]) == "6.251 ± 0.599"
    assert str(cells["wine_red", "PBP-R"]) == "0.945 ± 0.044"
    # The lowest of every line, which the paper prints in bold.
    best = {
        name: min((cell.value, method) for (own, method), cell in cells.items() if own == name)[1]
        for name in NINE
    }
    assert {name for name in NINE if best[name] == "HMC-R"} == {"concrete", "protein", "wine_red"}
    assert {name for name in NINE if best[name] == "HMC-A"} == {
        *("boston_housing", "energy", "kin8nm", "naval_propulsion", "power_plant", "yacht")
    }
    assert printed.active("year_prediction_msd", "PBP-A") is None
    assert printed.active("yacht", "VI-A") is None


def test_the_jobs_match_the_paper() -> None:
    jobs = ACTIVE.jobs(Selection())
    assert len(jobs) == len({job.key for job in jobs}) == 9 * 40 * 2
    assert {job.dataset for job in jobs} == set(NINE)
    assert {job.method for job in jobs} == {"PBP-A", "PBP-R"}
    assert {(job.hidden, job.n_epochs) for job in jobs} == {((10,), 40)}
    assert {job.split for job in jobs} == set(range(40))


def test_every_method_has_the_same_repetitions_and_seeds() -> None:
    jobs = ACTIVE.jobs(Selection(["yacht"], 3, methods=["PBP", "LA", "mine:factory"]))
    names = [f"{name}-{way}" for name in ("PBP", "LA", "mine:factory") for way in "AR"]
    assert {job.method for job in jobs} == set(names)
    for name in names:
        assert [(job.split, job.seed) for job in jobs if job.method == name] == [
            (0, 0),
            (1, 1),
            (2, 2),
        ]
    with pytest.raises(ValueError, match="unknown method PBP-A: choose among PBP"):
        ACTIVE.jobs(Selection(["yacht"], methods=["PBP-A"]))


def test_a_job_costs_little_more_with_a_large_pool() -> None:
    costs = [cost(replace(job_of("HMC-A"), dataset=name)) for name in ("concrete", "kin8nm")]
    assert costs[0] < costs[1] < 2.0 * costs[0]
    assert costs[0] > cost(replace(job_of("PBP-A"), dataset="concrete"))


def test_a_missing_extra_is_named(hide: Callable[..., None]) -> None:
    hide("jax", "numpyro")
    with pytest.raises(ValueError, match="the method HMC needs jax, numpyro: pip install"):
        methods.check([job_of("HMC-A")])


# ---- What is fitted and picked


@pytest.mark.parametrize("n", [130, 308, 5000])
def test_a_split_has_every_row_once(n: int) -> None:
    rows = active.split(n, 7)
    assert [len(part) for part in rows] == [20, 100, n - 120]
    assert sorted(np.concatenate(rows)) == list(range(n))
    for ours, again in zip(rows, active.split(n, 7), strict=True):
        np.testing.assert_array_equal(ours, again)
    assert set(active.split(n, 8).train) != set(rows.train)


@pytest.mark.parametrize("method", ["PBP", "EBP"])
def test_no_row_is_used_twice(method: str) -> None:
    for repetition in range(2):
        rows = active.split(len(Y), repetition)
        for way in "AR":
            picked = learn(f"{method}-{way}", repetition)["picked"]
            assert len(set(picked)) == 9
            assert set(picked) <= set(rows.pool.tolist())


def test_one_seed_gives_one_row() -> None:
    first, again = learn("PBP-A"), learn("PBP-A")
    assert without_times(first) == without_times(again)
    assert json.loads(json.dumps(first)) == first
    assert first["rmses"] != learn("PBP-A", seed=4)["rmses"]


def test_the_first_fit_and_the_random_picks_are_shared() -> None:
    rows = {name: learn(name) for name in ("PBP-A", "PBP-R", "LA-A", "LA-R", "EBP-R")}
    for method in ("PBP", "LA"):
        a, r = rows[f"{method}-A"], rows[f"{method}-R"]
        for scores in ("rmses", "log_likelihoods"):
            assert a[scores][0] == r[scores][0]
            assert a[scores][1:] != r[scores][1:]
    assert rows["PBP-R"]["picked"] == rows["LA-R"]["picked"] == rows["EBP-R"]["picked"]
    assert rows["PBP-A"]["picked"] != rows["PBP-R"]["picked"]
    assert learn("PBP-R", 1)["picked"] != rows["PBP-R"]["picked"]


def test_the_last_fit_matches_the_public_regressor() -> None:
    rows, row = active.split(len(Y), 0), learn("PBP-A")
    train = [*rows.train, *row["picked"]]
    seed = int(np.random.RandomState(3).randint(2**31, size=10)[-1])
    model = probprop.PBPRegressor(10, n_epochs=40, random_state=seed).fit(X[train], Y[train])
    expected = metrics.summary(Y[rows.test], model.predict_distribution(X[rows.test]))
    assert {key: row[key] for key in expected} == expected
    assert row["rmse"] == row["rmses"][-1]
    assert row["log_likelihood"] == row["log_likelihoods"][-1]
    assert (row["n_train"], row["n_test"], row["n_pool"]) == (29, 100, len(Y) - 120)
    assert len(row["rmses"]) == len(row["log_likelihoods"]) == 10


@pytest.mark.parametrize("block_rows", [4096, 50])
@pytest.mark.usefixtures("fakes")
def test_the_most_uncertain_row_is_picked_every_time(
    block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "_BLOCK_ROWS", block_rows)
    rows = active.split(len(Y), 5)
    known, left, expected = list(rows.train), list(rows.pool), []
    for _ in range(9):  # one row at a time, the pool getting smaller
        nearest = [min(np.linalg.norm(X[i] - X[k]) for k in known) for i in left]
        expected.append(left.pop(int(np.argmax(nearest))))
        known.append(expected[-1])
    assert learn("FarthestFirst-A", 5)["picked"] == expected
    assert FarthestFirst.seen == tuple((n, X.shape[1]) for n in range(20, 30))


@pytest.mark.usefixtures("fakes")
def test_ties_go_to_the_first_of_the_pool_and_warnings_into_the_row() -> None:
    row = learn("Constant-A", 2)
    assert row["picked"] == active.split(len(Y), 2).pool[:9].tolist()
    assert row["picked"] == learn("Constant-R", 2)["picked"]
    assert row["warnings"] == ["it has not settled"]
    assert row["n_warned"] == 10
    assert learn("FarthestFirst-A")["n_warned"] == 0


def test_hmc_has_the_papers_draws_and_two_priors_of_the_noise() -> None:
    for package in ("jax", "numpyro"):
        pytest.importorskip(package, reason="needs the extra 'baselines'")

    from probprop_lab.baselines.hmc import WEAK_NOISE

    strong, weak = (ACTIVE.methods[k].make(job_of(k)) for k in ("HMC", "HMC weak"))
    assert (strong.kernel, strong.n_samples, strong.hidden_layer_sizes) == ("hmc", 500, (10,))
    assert (strong.noise_shape, strong.noise_rate) == (6.0, 6.0)
    changed = {k for k, v in weak.get_params().items() if v != strong.get_params()[k]}
    assert changed == set(WEAK_NOISE)


# ---- The table


def made_rows(dataset: str, rmses: dict[str, list[float]]) -> list[Row]:
    """Rows of methods that end at these RMSEs, one per repetition."""
    scores = {"log_likelihood": -1.0, "crps": 0.1, "coverage_95": 0.9, "calibration_error": 0.05}
    more = {"seconds": 0.5, "n_train": 29, "n_warned": 0, "warnings": []}
    return [
        {
            **Job("active", dataset, i, method, i, (10,), 40).fields,
            **scores,
            **more,
            "rmse": rmse,
            "rmses": np.linspace(9.0, rmse, 10).tolist(),
        }
        for method, values in rmses.items()
        for i, rmse in enumerate(values)
    ]


def test_active_and_random_collection_are_compared_in_pairs() -> None:
    rows = made_rows("yacht", {"PBP-A": [4.0, 5.0, 6.5], "PBP-R": [5.0, 6.0, 8.0, 99.0]})
    a, r = ACTIVE.records(rows)
    assert (a["method"], r["method"]) == ("PBP-A", "PBP-R")
    gaps = np.array([-1.0, -1.0, -1.5])
    assert (a["n_paired"], r["n_paired"]) == (3, 0)
    assert a["rmse_gap"] == pytest.approx(gaps.mean())
    assert a["rmse_gap_se"] == pytest.approx(gaps.std(ddof=1) / np.sqrt(3))
    assert a["gap_errors"] == pytest.approx(a["rmse_gap"] / a["rmse_gap_se"])
    assert a["rmse_paper"] == "4.058 ± 0.158"
    combined = np.hypot(a["rmse_se"], 0.158)
    assert a["rmse_difference"] == pytest.approx((np.mean([4.0, 5.0, 6.5]) - 4.0585) / combined)
    assert a["rmse_first"] == 9.0
    assert r["rmse_gap"] is None
    assert r["rmse_max"] == 99.0


def test_the_order_matches_the_methods() -> None:
    rows = made_rows("yacht", {f"{m}-{way}": [1.0] for m in reversed(METHODS) for way in "RA"})
    found = [record["method"] for record in ACTIVE.records(rows)]
    assert found == [f"{m}-{way}" for m in METHODS for way in "AR"]
    assert all(record["gap_errors"] is None for record in ACTIVE.records(rows))


def test_both_priors_of_hmc_are_next_to_the_papers() -> None:
    names = ("HMC-A", "HMC weak-A", "EP-A")
    records = ACTIVE.records(made_rows("yacht", {name: [3.0, 3.5] for name in names}))
    assert [r["method"] for r in records] == list(names)
    assert [r["rmse_paper"][:5] for r in records] == ["3.211", "3.211", "15.44"]


def test_the_notes_say_what_differs_and_what_was_run() -> None:
    noise = 0.01 * np.arange(40)
    rows = made_rows("yacht", {"PBP-A": list(4.0 + noise / 2), "PBP-R": list(5.0 + noise)})
    rows += made_rows("energy", {"PBP-A": [9.0, 9.1], "PBP-R": [9.1, 9.0]})
    rows += made_rows("concrete", {"PBP-A": [12.0, 12.1], "PBP-R": [11.0, 11.2]})
    rows[0]["n_warned"] = 4
    notes = ACTIVE.notes(ACTIVE.records(rows))
    assert notes[2:] == [
        "PBP-A against PBP-R, RMSE, by more than two standard errors of the paired difference: "
        "lower in yacht; higher in concrete; the paper has improvements in energy, yacht, not "
        "here: energy",
        "PBP-A: 2 of 3 cells within two standard errors of the paper's",
        "our PBP-A against the paper's, RMSE, by more than two standard errors: better in none; "
        "worse in energy (9.05, paper 3.399 ± 0.064)",
        "PBP-R: 1 of 3 cells within two standard errors of the paper's",
        "our PBP-R against the paper's, RMSE, by more than two standard errors: better in "
        "concrete (11.1, paper 12.417 ± 0.392); worse in energy (9.05, paper 3.743 ± 0.121)",
        "4 of 440 fits of PBP-A warned; their rows say of what",
        "of the protocol only these repetitions were run, counted from 0, of 0 to 1: concrete "
        "PBP-A, concrete PBP-R, energy PBP-A, energy PBP-R",
    ]
    agreeing = ACTIVE.notes(ACTIVE.records(rows[:80]))
    assert agreeing[2].endswith("the paper has improvements in yacht, and so they are here")
    assert not any("repetitions were run" in note for note in agreeing)


def test_the_figures_are_the_papers_three_sets_and_one_for_each_other() -> None:
    both = {"PBP-A": [4.0, 5.0, 6.0], "PBP-R": [5.0, 5.0, 8.0]}
    names = ("wine_red", "energy", "boston_housing", "yacht", "concrete")
    rows = [row for name in names for row in made_rows(name, both)]
    drawn = ACTIVE.figures(rows)
    assert [words.partition(":")[0] for _, words in drawn] == [
        "boston_housing, yacht, energy",
        "concrete",
        "wine_red",
    ]
    panels = drawn[0][0].axes
    assert [ax.get_title() for ax in panels] == list(active_report.FIGURE_2)
    for ax in panels:
        a, r = ax.containers
        assert (a.get_label(), r.get_label()) == ("PBP-A", "PBP-R")
        np.testing.assert_array_equal(a.lines[0].get_xdata(), np.arange(20, 30))
        assert a.lines[0].get_ydata()[-1] == pytest.approx(5.0)
        (bars,) = r.lines[2]
        low, high = bars.get_segments()[-1][:, 1]
        assert (high - low) / 2.0 == pytest.approx(np.std([5.0, 5.0, 8.0], ddof=1) / np.sqrt(3))
        assert a.lines[0].get_linestyle() != r.lines[0].get_linestyle()
    ((alone, _),) = ACTIVE.figures(made_rows("wine_red", {"PBP-A": [4.0]}))
    assert len(alone.axes) == 1


# ---- The command


@pytest.fixture
def made_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The diabetes data under every name, and a folder to write in."""
    monkeypatch.setattr(probprop_lab.datasets, "load", lambda name: SimpleNamespace(X=X, y=Y))
    monkeypatch.chdir(tmp_path)
    active._data.cache_clear()
    yield
    active._data.cache_clear()


@pytest.mark.usefixtures("made_data")
def test_the_command_runs_resumes_and_shows(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["reproduce", "active", "--dataset", "yacht,wine_red", "--jobs", "1"]
    assert run_command([*arguments, "--splits", "1"]) == 0
    capfd.readouterr()
    more = ["--splits", "2", "--method", "PBP", "--report", "a.html", "--csv", "a.csv"]
    assert run_command([*arguments, *more]) == 0
    told = capfd.readouterr()
    assert "4 fits of 8 found in reproduce-active.jsonl" in told.err
    assert "only these repetitions were run, counted from 0: 0 to 1" in told.err
    lines = [line.split() for line in told.out.splitlines()]
    assert lines[0][:3] == ["data", "set", "method"]
    assert [line[:3] for line in lines[1:]] == [
        [name, f"PBP-{way}", "2"] for name in ("wine_red", "yacht") for way in "AR"
    ]
    assert Path("a.html").read_text().count("data:image/svg+xml;base64,") == 2
    rows = [json.loads(line) for line in Path("reproduce-active.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    (first,) = [r for r in rows if (r["dataset"], r["split"], r["method"]) == ("yacht", 1, "PBP-A")]
    expected = active.learn(Job.of_row(first), X, Y, active.split(len(Y), 1))
    again = without_times({**Job.of_row(first).fields, **expected})
    assert {key: first[key] for key in again} == again

"""The methods: found by name, refused before any job, measured alike, compared."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge

from probprop import metrics
from probprop.cli.application import run as run_command
from probprop.metrics.scorers import predictive
from probprop_lab import datasets
from probprop_lab.experiments import EXPERIMENTS, Job, Selection, read_results, run
from probprop_lab.experiments.harness import benchmark, methods, report, scoring
from probprop_lab.experiments.paper import printed

Row = dict[str, Any]

X, Y = load_diabetes(return_X_y=True)
PARTS = X[:300], Y[:300], X[300:], Y[300:]

OWN = """
from sklearn.linear_model import BayesianRidge, LinearRegression

class Constant:
    def __init__(self, random_state): self.seed = random_state
    def fit(self, X, y): self.mean = y.mean(); return self
    def predict(self, X, return_std=False):
        import numpy as np
        return np.full(len(X), self.mean), np.full(len(X), 1.0 + self.seed)

def ridge(): return BayesianRidge()
def constant(random_state): return Constant(random_state)
def no_std(): return LinearRegression()
def nothing(): return None
def a_class(): return BayesianRidge
def fails(): raise RuntimeError("no luck")
number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's module in it, and the current one."""
    (tmp_path / "own_methods.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("own_methods", "broken", "my_method"):
        sys.modules.pop(name, None)


# ---- Found


def test_a_users_factory_gets_the_seed_it_requests(own: Path) -> None:
    job = Job("table1", "diabetes", 0, "own_methods:constant", seed=4)
    assert methods.find(job.method).make(job).seed == 4
    assert isinstance(methods.find("own_methods:ridge").make(job), BayesianRidge)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "guess",
            "unknown method guess: choose among PBP, VI, BP, HMC, HMC weak, EP, LA, EBP, PBPR",
        ),
        ("no_such_module:f", "no_such_module cannot be imported .ModuleNotFoundError"),
        ("broken:f", "broken cannot be imported .ModuleNotFoundError: No module named 'no_such_p"),
        (":f", "cannot be imported"),
        ("own_methods:missing", "own_methods has no function missing"),
        ("own_methods:number", "own_methods has no function number"),
        ("own_methods:nothing", "must return an estimator with fit, got None"),
        ("own_methods:a_class", "must return an estimator with fit, got <class"),
        ("own_methods:no_std", "LinearRegression gives no standard deviations; it needs predict"),
        ("own_methods:fails", r"calling it fails \(RuntimeError: no luck\)"),
    ],
)
def test_what_cannot_be_run_is_said_before_any_job(
    own: Path, name: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    jobs = [Job("toy", "toy_cubic", i, m, hidden=(3,)) for i, m in enumerate(["PBP", name])]
    with pytest.raises(ValueError, match=message):
        run(jobs, "r.jsonl", n_jobs=1)
    assert not Path("r.jsonl").exists()
    assert run_command(["reproduce", "toy", "--method", f"PBP,{name}"]) == 1
    error = capfd.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1
    assert not Path("reproduce-toy.jsonl").exists()


def test_a_missing_extra_is_named(hide: Callable[..., None]) -> None:
    hide("jax", "bayes_opt")
    with pytest.raises(ValueError, match=r"VI needs jax, bayes_opt: pip install './lab\[base"):
        methods.check([Job("table1", "yacht", 0, "VI")])
    default = [job.method for job in EXPERIMENTS["toy"].jobs(Selection())]
    assert default == ["PBP", "EP", "LA", "EBP"]
    assert EXPERIMENTS["toy"].notes([])[-1].startswith("VI, BP, HMC, HMC weak cannot be run")


def test_finished_rows_need_no_method(tmp_path: Path, hide: Callable[..., None]) -> None:
    job = Job("toy", "toy_cubic", 0, "VI", hidden=(3,))
    (tmp_path / "r.jsonl").write_text(json.dumps({**job.fields, "rmse": 1.0}) + "\n")
    hide("jax")
    assert run([job], tmp_path / "r.jsonl", n_jobs=1)[0]["rmse"] == 1.0


def test_the_papers_methods_are_made_as_in_the_paper() -> None:
    pytest.importorskip("jax", reason="needs the extra 'baselines'")
    pytest.importorskip("bayes_opt", reason="needs the extra 'baselines'")
    pytest.importorskip("numpyro", reason="needs the extra 'baselines'")
    from probprop_lab.baselines import BackpropRegressor, VariationalRegressor
    from probprop_lab.baselines.tuning import BACKPROP_SPACE, VARIATIONAL_SPACE

    job = Job("table1", "yacht", 0, seed=7, hidden=(50, 50), n_epochs=39)
    made = {name: methods.find(name).make(replace(job, method=name)) for name in methods.COMPARED}
    for name, kind, space, measure in (
        ("BP", BackpropRegressor, BACKPROP_SPACE, "rmse"),
        ("VI", VariationalRegressor, VARIATIONAL_SPACE, "log_likelihood"),
    ):
        tuned = made[name]
        assert (tuned.n_iter, tuned.random_state, tuned.space) == (30, 7, space)
        assert tuned.scoring == measure
        assert isinstance(tuned.estimator, kind)
        assert (tuned.estimator.hidden_layer_sizes, tuned.estimator.n_epochs) == ((50, 50), 39)
    for name in ("PBP", "EBP"):
        assert (made[name].n_epochs, made[name].random_state) == (39, 7)
    for name in ("PBP", "HMC", "EP", "LA", "EBP"):
        assert made[name].hidden_layer_sizes == (50, 50)
    toy = EXPERIMENTS["toy"].methods["HMC"].make(Job("toy", "toy_cubic", 0, "HMC"))
    assert (toy.kernel, toy.n_samples) == ("hmc", 30_000)


# ---- Measured


def test_means_and_standard_deviations_are_a_gaussian(own: Path) -> None:
    job = Job("table1", "diabetes", 0, "own_methods:ridge")
    fitted, row = scoring.fit_and_score(job, *PARTS)
    mean, std = BayesianRidge().fit(*PARTS[:2]).predict(PARTS[2], return_std=True)
    assert row["rmse"] == metrics.rmse(PARTS[3], mean)
    assert row["log_likelihood"] == pytest.approx(norm.logpdf(PARTS[3], mean, std).mean())
    np.testing.assert_allclose(predictive(fitted, PARTS[2]).std, std, rtol=1e-15)
    for name in ("epistemic_std", "noise_variance", "alpha_noise", "n_guarded", "params", "r_hat"):
        assert row[name] is None
    assert json.loads(json.dumps(row)) == row


def test_every_method_gives_the_same_fields(own: Path) -> None:
    rows = [
        scoring.fit_and_score(Job("table1", "d", 0, name, hidden=(4,), n_epochs=2), *PARTS)[1]
        for name in ("PBP", methods.PLAIN, "EBP", "own_methods:ridge")
    ]
    assert len({tuple(row) for row in rows}) == 1
    assert rows[2]["noise_variance"] > 0.0
    assert rows[2]["n_undone"] == 0
    assert rows[2]["prior_variance"] is None  # it is not learned


def test_a_standard_deviation_of_zero_is_refused() -> None:
    class Sure:
        def predict(self, X: np.ndarray, return_std: bool = False) -> Any:
            return np.zeros(len(X)), np.zeros(len(X))

    with pytest.raises(ValueError, match="Sure predicts a standard deviation of 0"):
        predictive(Sure(), X[:3])


def test_a_search_shows_what_it_found() -> None:
    class Found:
        best_params_ = {"learning_rate": 0.1}  # noqa: RUF012

        class best_estimator_:
            noise_variance_ = 2.0

    details = scoring.details(Found())
    assert details["params"] == {"learning_rate": 0.1}
    assert details["noise_variance"] == 2.0


def test_warnings_are_kept_in_the_row(own: Path) -> None:
    Path("own_methods.py").write_text(
        OWN + "\nclass Warns(BayesianRidge):\n"
        "    def fit(self, X, y):\n"
        "        import warnings\n"
        "        for _ in range(2): warnings.warn('it has not settled')\n"
        "        return super().fit(X, y)\n"
    )
    job = Job("table1", "yacht", 0, "own_methods:Warns")
    row = scoring.fit_and_score(job, *PARTS)[1]
    assert row["warnings"] == ["it has not settled"]
    rows = [{**job.fields, **row}, {**job.fields, **row, "split": 1, "warnings": []}]
    notes = EXPERIMENTS["table1"].notes(EXPERIMENTS["table1"].records(rows))
    assert "1 of 2 fits of own_methods:Warns warned; their rows say of what" in notes


def test_a_new_method_runs_alone_and_workers_find_it(own: Path) -> None:
    def jobs(*names: str) -> list[Job]:
        return [
            Job("toy", "toy_cubic", i, name, hidden=(3,), n_epochs=2)
            for i in range(2)
            for name in names
        ]

    run(jobs("PBP"), "r.jsonl", n_jobs=1)
    ran: list[Job] = []
    names = ("PBP", "EBP", "own_methods:constant")
    rows = run(jobs(*names), "r.jsonl", n_jobs=2, progress=ran.append)
    assert {job.method for job in ran} == set(names[1:])
    assert [row["method"] for row in rows] == list(names) * 2


# ---- Compared


def made_row(job: Job, rmse: float, log_likelihood: float, seconds: float) -> Row:
    scores = {"rmse": rmse, "log_likelihood": log_likelihood, "seconds": seconds}
    return {**job.fields, **scores, "crps": 0.1, "coverage_95": 0.9, "calibration_error": 0.05}


def made_rows() -> list[Row]:
    """Yacht in full for PBP; three splits of VI, worse than PBP in all; BP better than printed."""
    rows = []
    for job in EXPERIMENTS["table1"].jobs(Selection(["yacht"], methods=["PBP", "VI", "BP"])):
        jitter = 0.01 * (job.split % 2)
        if job.method == "PBP":
            rows.append(made_row(job, 1.0 + job.split, -1.6 - jitter, 0.1))
        elif job.method == "BP":
            rows.append(made_row(job, 0.6 + jitter, -5.0, 10.0))
        elif job.split < 3:
            rows.append(made_row(job, 1.5 + job.split + jitter, -2.0 + jitter, 20.0))
    return rows


def test_methods_are_compared_on_the_splits_they_share() -> None:
    records = EXPERIMENTS["table1"].records(made_rows())
    assert [r["method"] for r in records] == ["PBP", "VI", "BP"]
    pbp, vi, bp = records
    assert pbp["n_paired"] == 0
    assert pbp["slower"] is None
    assert (vi["n_splits"], vi["n_paired"], vi["splits"]) == (3, 3, "0 to 2")
    gaps = [-0.5, -0.51, -0.5]
    assert vi["rmse_gap"] == pytest.approx(np.mean(gaps))
    assert vi["rmse_gap_se"] == pytest.approx(np.std(gaps, ddof=1) / np.sqrt(3))
    assert vi["slower"] == pytest.approx(200.0)
    assert (vi["seconds_paper"], bp["seconds_paper"]) == (954, 626)
    assert vi["rmse_paper"] == "6.887 ± 0.6749"
    assert bp["log_likelihood_paper"] is None
    assert bp["rmse_difference"] < -2.0


def test_the_notes_say_who_wins_what_is_better_than_printed_and_what_was_run() -> None:
    notes = EXPERIMENTS["table1"].notes(EXPERIMENTS["table1"].records(made_rows()))
    (against_vi,) = [n for n in notes if n.startswith("PBP against VI")]
    assert (
        "log-likelihood is higher in 1 of 1 (by more than two standard errors in 1)" in against_vi
    )
    assert "its RMSE lower in 1 of 1" in against_vi
    assert "a fit of VI takes 200 times as long (median; from 200 to 200)" in against_vi
    (against_bp,) = [n for n in notes if n.startswith("PBP against BP")]
    assert "its RMSE lower in 0 of 1" in against_bp
    better = "our BP against the paper's, RMSE, by more than two standard errors: better in yacht ("
    assert any(n.startswith(better) and n.endswith("worse in none") for n in notes)
    assert not any("our BP against the paper's, log-likelihood" in n for n in notes)
    assert notes[-1] == (
        "of the protocol only these splits were run, counted from 0, of 0 to 2: yacht VI"
    )


def test_one_split_has_no_standard_error_to_tell_by() -> None:
    rows = [row for row in made_rows() if row["split"] == 0]
    notes = EXPERIMENTS["table1"].notes(EXPERIMENTS["table1"].records(rows))
    assert notes[-1] == "of the protocol only these splits were run, counted from 0: 0"
    assert any(
        "without a standard error to compare by: yacht (0.6, paper 1.182" in n for n in notes
    )


def test_the_table_has_a_column_of_methods_only_where_there_are_several() -> None:
    several = report.table(EXPERIMENTS["table1"], made_rows())
    assert several[0][:3] == ["data set", "method", "splits"]
    assert [line[1] for line in several[1]] == ["PBP", "VI", "BP"]
    alone = [row for row in made_rows() if row["method"] == "PBP"]
    header, cells = report.table(EXPERIMENTS["table1"], alone)
    assert header[:2] == ["data set", "splits"]
    assert "of PBP's" not in header
    assert all(len(line) == len(header) for line in cells)


def test_energy_of_bp_is_next_to_both_printed_values() -> None:
    jobs = EXPERIMENTS["table1"].jobs(Selection(["energy"], 2, methods=["BP"]))
    records = EXPERIMENTS["table1"].records([made_row(job, 1.1, -1.0, 1.0) for job in jobs])
    assert [r["rmse_paper"] for r in records] == ["1.098 ± 0.0738", "1.185 ± 0.1242"]


def test_deep_has_the_columns_of_bp() -> None:
    jobs = EXPERIMENTS["deep"].jobs(Selection(["yacht"], methods=["PBP", "BP"]))
    assert len(jobs) == 2 * 4 * 20
    rows = [made_row(job, 1.0 + 0.01 * (job.split % 2), -1.0, 1.0) for job in jobs]
    records = EXPERIMENTS["deep"].records(rows)
    cells = [printed.deep("yacht", n, "BP") for n in (1, 2, 3, 4)]
    assert [r["rmse_paper"] for r in records[4:]] == [str(cell) for cell in cells]
    notes = EXPERIMENTS["deep"].notes(records)
    assert any("our BP against the paper's" in n and "yacht with 50-50 (1.005" in n for n in notes)


def test_naval_is_run_twice_for_pbp_only() -> None:
    jobs = EXPERIMENTS["table1"].jobs(Selection(["naval_propulsion"], 1, methods=["PBP", "EBP"]))
    assert [job.method for job in jobs] == ["PBP", "EBP", methods.PLAIN]


# ---- The command


def test_show_makes_the_table_of_what_is_there(
    own: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["reproduce", "toy", "--show"]) == 1
    assert "reproduce-toy.jsonl has none of these fits" in capfd.readouterr().err
    run([Job("toy", "toy_cubic", 0, "EBP", hidden=(100,))], "reproduce-toy.jsonl", n_jobs=1)
    before = Path("reproduce-toy.jsonl").read_bytes()
    assert run_command(["reproduce", "toy", "--method", "PBP", "--method", "EBP", "--show"]) == 0
    shown = capfd.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["method", "EBP"]
    assert "1 fit of 2 found" in shown.err
    assert Path("reproduce-toy.jsonl").read_bytes() == before


def test_the_example_of_the_documentation_runs(
    own: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[4] / "docs" / "baselines.md").read_text()
    (source,) = re.findall(r"```python\n(from sklearn.*?)```", page, flags=re.DOTALL)
    (command,) = re.findall(r"^\$ probprop (.*my_method:gp)$", page, flags=re.MULTILINE)
    assert len(source.strip().splitlines()) == 10
    Path("my_method.py").write_text(source)
    if datasets.where("yacht") is None:  # one of the same shape
        rng = np.random.RandomState(0)
        made = rng.standard_normal((308, 6))
        y = np.sin(made[:, 0]) + 0.1 * rng.standard_normal(308)
        split = np.split(rng.permutation(308), [277])
        monkeypatch.setattr(benchmark, "_data", lambda name: (made, y, [split]))
        monkeypatch.setattr(datasets, "load", lambda name: None)
    assert run_command([*command.split(), "--jobs", "1", "--report", "r.html"]) == 0
    out = capfd.readouterr().out
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["yacht", "PBP"],
        ["yacht", "my_method:gp"],
    ]
    rows = list(read_results("reproduce-table1.jsonl").values())
    assert [row["method"] for row in rows] == ["PBP", "my_method:gp"]
    X_train, y_train, X_test, y_test = benchmark.load_split("yacht", 0)
    gp = sys.modules["my_method"].gp(random_state=0).fit(X_train, y_train)
    assert rows[1]["rmse"] == pytest.approx(metrics.rmse(y_test, gp.predict(X_test)), rel=1e-6)
    assert "my_method:gp" in Path("r.html").read_text()

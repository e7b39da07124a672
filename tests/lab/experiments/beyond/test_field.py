"""`reproduce field`: which jobs there are, ranks, gains, the tables and the picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cli_tables import homes
from probprop.cli import methods as own
from probprop.cli.application import run as run_command
from probprop.cli.comparing import lead
from probprop_lab.experiments import EXPERIMENTS, Job, Selection
from probprop_lab.experiments.beyond import field
from probprop_lab.experiments.harness import methods, report, standings

FIELD = EXPERIMENTS["field"]
Row = dict[str, Any]


def row(dataset: str, method: str, split: int, value: float, seconds: float = 1.0) -> Row:
    """A row as the runner keeps it, with this log-likelihood."""
    scores = dict.fromkeys(("rmse", "crps", "calibration_error"), 1.0)
    job = Job("field", dataset, split, method, seed=split)
    more = {"coverage_95": 0.9, "seconds": seconds, "warnings": [], "log_likelihood": value}
    return {**job.fields, **scores, **more}


# On yacht GP is 1.5 ± 0.5 above PBP and HistGB 1 below; on kin8nm there is no GP.
ROWS = [
    row("yacht", "PBP", 0, -2.0),
    row("yacht", "PBP", 1, -3.0),
    row("yacht", "GP", 0, -1.0, 10.0),
    row("yacht", "GP", 1, -1.0, 10.0),
    row("yacht", "HistGB", 0, -3.0, 3.0),
    row("yacht", "HistGB", 1, -4.0, 3.0),
    row("kin8nm", "PBP", 0, 1.0),
    row("kin8nm", "PBP", 1, 1.0),
    row("kin8nm", "HistGB", 0, 1.5, 1.0),
    row("kin8nm", "HistGB", 1, 1.3, 1.0),
]


# ---- The jobs


def test_the_default_is_nine_sets_with_more_splits_of_the_small_ones() -> None:
    jobs = FIELD.jobs(Selection(methods=["PBP", "GP ARD"]))
    found = {(job.dataset, job.method): 0 for job in jobs}
    for job in jobs:
        found[job.dataset, job.method] += 1
    small = ["boston_housing", "concrete", "energy", "wine_red", "yacht"]
    large = ["kin8nm", "naval_propulsion", "power_plant", "protein"]
    assert {name: found[name, "PBP"] for name in small} == dict.fromkeys(small, 10)
    assert {name: found[name, "PBP"] for name in large} == dict.fromkeys(large, 3)
    assert {name for name, method in found if method == "GP ARD"} == set(small)
    assert {job.hidden for job in jobs if job.dataset == "protein"} == {(100,)}


def test_a_selection_is_obeyed_and_pairs_share_their_seeds() -> None:
    jobs = FIELD.jobs(Selection(["kin8nm"], n_splits=7, seed=2, methods=["PBP", "HistGB"]))
    assert [job.split for job in jobs if job.method == "HistGB"] == list(range(7))
    assert {job.seed for job in jobs if job.split == 3} == {2003}


def test_methods_that_cannot_be_run_are_left_out_or_refused(
    hide: Callable[..., None],
) -> None:
    with pytest.raises(ValueError, match="GP: these sets have too many rows for it"):
        FIELD.jobs(Selection(["protein"], methods=["GP"]))
    hide("catboost", "lightgbm", "ngboost")
    jobs = FIELD.jobs(Selection(["yacht"], n_splits=1))
    extra = ["LightGBM", "CatBoost", "CatBoost constant", "NGBoost"]
    assert [job.method for job in jobs] == [k for k in methods.FIELD if k not in extra]
    shown = FIELD.jobs(Selection(["yacht"], n_splits=1, show=True))
    assert [job.method for job in shown] == methods.FIELD
    with pytest.raises(ValueError, match=r"NGBoost needs ngboost: pip install './lab\[field\]'"):
        methods.check(FIELD.jobs(Selection(["yacht"], methods=["NGBoost"])))
    note = (
        "NGBoost was not run: pip install './lab[field]' in a checkout of the probprop repository"
    )
    assert note in FIELD.notes(FIELD.records(ROWS))


# ---- Ranks and gains


def test_ranks_are_over_the_splits_all_share() -> None:
    extra = [*ROWS, row("yacht", "HistGB", 2, 100.0)]  # an easy split that only one had
    for rows in (ROWS, extra):
        assert standings.ranks(rows) == {
            "yacht": {"GP": 1.0, "PBP": 2.0, "HistGB": 3.0},
            "kin8nm": {"HistGB": 1.0, "PBP": 2.0},
        }


def test_equal_means_share_a_rank_and_no_common_split_has_none() -> None:
    tied = [row("yacht", name, 0, -1.0) for name in ("PBP", "GP")] + [row("yacht", "EP", 0, -2.0)]
    assert standings.ranks(tied)["yacht"] == {"PBP": 1.5, "GP": 1.5, "EP": 3.0}
    apart = [row("yacht", "PBP", 0, -1.0), row("yacht", "GP", 1, -2.0)]
    assert standings.ranks(apart)["yacht"] == {}
    records = FIELD.records(apart)
    assert [record["rank"] for record in records] == [None, None]
    assert report.table(FIELD, apart)[1][0][:2] == ["yacht", "PBP"]


def test_the_crps_has_ranks_of_its_own_and_the_lowest_is_the_first() -> None:
    scores = {("PBP", 0): 0.3, ("GP", 0): 0.1, ("HistGB", 0): 0.2, ("HistGB", 1): 0.0}
    rows = [{**row("yacht", m, k, 0.0), "crps": value} for (m, k), value in scores.items()]
    assert standings.ranks(rows, "crps") == {"yacht": {"GP": 1.0, "HistGB": 2.0, "PBP": 3.0}}
    records = FIELD.records(rows)
    assert {r["method"]: r["crps_rank"] for r in records} == {"PBP": 3.0, "GP": 1.0, "HistGB": 2.0}
    standing = {r["method"]: r["mean_crps_rank"] for r in standings.mean_ranks(records)}
    assert standing == {"PBP": 3.0, "GP": 1.0, "HistGB": 2.0}
    note = "first in mean rank of the CRPS: GP with 1.00; number of sets it was run on: 1"
    assert note in FIELD.notes(records)


def test_the_distance_from_the_first_is_over_the_splits_of_both() -> None:
    """On yacht GP leads; HistGB is behind it by 2 and by 3, and a third split has no GP."""
    found = {
        (r["dataset"], r["method"]): r
        for r in FIELD.records([*ROWS, row("yacht", "HistGB", 2, 50.0)])
    }
    assert {found["yacht", m]["leader"] for m in ("PBP", "GP", "HistGB")} == {"GP"}
    assert found["yacht", "HistGB"]["behind"] == pytest.approx(2.5)
    assert found["yacht", "HistGB"]["behind_se"] == pytest.approx(0.5)
    assert found["yacht", "GP"]["behind"] is None


def test_the_notes_say_where_our_best_is_not_first() -> None:
    ours = [row("yacht", methods.BEST, k, value) for k, value in enumerate((-1.5, -1.7))]
    ours += [row("kin8nm", methods.BEST, k, 2.0) for k in range(2)]
    notes = FIELD.notes(FIELD.records(ROWS + ours))
    expected = "PBPRegressorCV is first on 1 of 2 sets; another is on yacht (GP, by 0.60 ± 0.10)"
    assert expected in notes
    alone = FIELD.notes(FIELD.records(ours))
    assert "PBPRegressorCV is first on 2 of 2 sets" in alone
    assert not any("is first on" in note for note in FIELD.notes(FIELD.records(ROWS)))


def test_gains_are_paired_differences_with_their_standard_error() -> None:
    found = {(r["dataset"], r["method"]): r for r in FIELD.records(ROWS)}
    gp = found["yacht", "GP"]
    assert gp["gain"] == pytest.approx(1.5)
    assert gp["gain_se"] == pytest.approx(np.std([1.0, 2.0], ddof=1) / np.sqrt(2.0))
    assert found["yacht", "PBP"]["gain"] is None
    header, cells = report.table(FIELD, ROWS)
    line = dict(zip(header, next(c for c in cells if c[:2] == ["yacht", "GP"]), strict=True))
    assert (line["above PBP"], line["rank"], line["of PBP's"]) == ("1.50 ± 0.50", "1", "10")


def test_mean_ranks_say_on_how_many_sets() -> None:
    found = {record["method"]: record for record in standings.mean_ranks(FIELD.records(ROWS))}
    assert list(found) == ["GP", "PBP", "HistGB"]
    assert (found["GP"]["mean_rank"], found["GP"]["n_sets"], found["GP"]["n_first"]) == (1.0, 1, 1)
    assert (found["PBP"]["mean_rank"], found["PBP"]["common_rank"]) == (2.0, 2.0)
    assert (found["HistGB"]["mean_rank"], found["HistGB"]["common_rank"]) == (2.0, 3.0)
    assert {record["n_common"] for record in found.values()} == {1}  # all three ran on yacht only
    assert (found["GP"]["n_better"], found["GP"]["n_worse"]) == (1, 0)
    assert (found["HistGB"]["n_better"], found["HistGB"]["n_worse"]) == (1, 1)
    assert found["HistGB"]["slower"] == 2.0  # the median of 3 and 1


def test_one_split_says_nothing_of_better_and_worse() -> None:
    found = standings.mean_ranks(FIELD.records([row for row in ROWS if row["split"] == 0]))
    assert {record["n_better"] for record in found} == {None}
    assert "above PBP on" not in standings.rank_table(FIELD.records(ROWS[:1]))[0]


def test_the_notes_say_who_leads_and_what_was_left_out() -> None:
    notes = FIELD.notes(FIELD.records(ROWS))
    assert "first in mean rank: GP with 1.00; number of sets it was run on: 1" in notes
    assert "GP, GP ARD: run up to 2,000 training rows only, so not on kin8nm" in notes


# ---- On a user's table


def test_compare_gains_the_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert {*own.methods_for("regression")} == {*own.KNOWN["regression"], *methods.FIELD}
    assert {*own.methods_for("classification")} - {*own.KNOWN["classification"]} == {
        *("MLPClassifier", "CatBoost")
    }
    monkeypatch.chdir(tmp_path)
    homes(100).to_csv("homes.csv", index=False)
    options = ["--drop", "id", "--n-jobs", "1", "--splits", "1"]
    asked = ["compare", "homes.csv", "--target", "price", *options, "--method", "deep ensemble"]
    assert run_command(asked) == 0
    assert capfd.readouterr().out.splitlines()[1].startswith("deep ensemble")


def test_without_shared_rows_a_lead_is_tested_as_usual() -> None:
    gaps = [0.3, 0.1, -0.2, 0.4, 0.25]
    found = lead(gaps, 0.0)
    expected = stats.ttest_1samp(gaps, 0.0)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.se == pytest.approx(stats.sem(gaps))
    assert lead(gaps, 0.1).se == pytest.approx(
        stats.sem(gaps) * np.sqrt(1.0 + 5.0 / 9.0)  # 1/n + n_test/n_train, over 1/n
    )
    assert lead([0.5, 0.5], 0.1).p == 0.0
    assert lead([0.0, 0.0], 0.1).p == 1.0


# ---- What is written


def test_the_tables_are_in_the_markdown_and_the_report(tmp_path: Path) -> None:
    text = report.markdown(FIELD, ROWS)
    assert "| data set | method | splits |" in text
    ranks = text.split("### Mean rank")[1].splitlines()
    header = "| method | mean rank | of the CRPS | on sets | mean rank on the 1 that all ran |"
    assert ranks[2].startswith(header)
    assert ranks[4] == "| GP | 1.00 | 2.00 | 1 | 1.00 | 2.00 | 1 | 1 | 0 | 10 |"
    glance = text.split("### Log-likelihood at a glance")[1].splitlines()
    assert glance[2] == "| method | kin8nm | yacht |"
    assert glance[4:7] == [
        "| GP |  | -1.00 (first) |",
        "| PBP | 1.00 | -2.50 |",
        "| HistGB | 1.40 (first) | -3.50 |",
    ]
    names = "rank,crps_rank,gain,gain_se,leader,behind,behind_se"
    assert report.csv_text(FIELD, ROWS).splitlines()[0].endswith(names)
    report.write_html(tmp_path / "field.html", FIELD, ROWS)
    page = (tmp_path / "field.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 1
    assert "mean rank on the 1 that all ran" in page


def test_the_picture_has_a_panel_per_set_and_one_scale() -> None:
    [(figure, words)] = FIELD.figures(ROWS)
    panels = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in panels] == ["kin8nm", "yacht"]
    assert len({ax.get_ylim() for ax in panels}) == 1
    marks = {c.get_label(): c.lines[0].get_xydata()[0] for c in panels[1].containers}
    np.testing.assert_allclose(marks["GP"], [10.0, 1.5])
    np.testing.assert_allclose(marks["PBP"], [1.0, 0.0])
    assert words.endswith("kin8nm, yacht")
    assert FIELD.figures([r for r in ROWS if r["method"] != "PBP"]) == []


def test_the_command_shows_both_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    asked = "--show --results rows.jsonl --splits 2 --method PBP,GP,HistGB --dataset yacht,kin8nm"
    assert run_command(["reproduce", "field", *asked.split()]) == 0
    out, err = capfd.readouterr()
    assert out.index("above PBP") < out.index("mean rank")
    assert "first in mean rank: GP" in err


def test_a_method_of_a_users_own_is_always_feasible() -> None:
    assert field.feasible("my_method:gp", 10**6)
    assert not field.feasible("GP", 2001)
    assert field.feasible("GP", 2000)

"""The command as a new user meets it: every command on real files, in one process."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.datasets import load_diabetes

import probprop
from cli_tables import homes, write_homes
from limits import Limits
from probprop import PBPRegressor
from probprop.cli import application
from probprop.cli.application import run
from probprop.cli.console import Terminal, make_terminal
from probprop.judged import LABELS, show
from probprop.metrics.verdict import verdict
from probprop.table import TableModel

ADDED = ["mean", "std", "epistemic_std", "aleatoric_std", "lower", "upper"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables and a fitted model, which no test changes."""
    path = tmp_path_factory.mktemp("cli")
    write_homes(path)
    load_diabetes(as_frame=True).frame.to_csv(path / "diabetes.csv", index=False)
    arguments = [
        "fit",
        "--fast",
        path / "homes.csv",
        "--target",
        "price",
        "--drop",
        "id",
        "--quiet",
    ]
    assert run([str(a) for a in [*arguments, "--n-epochs", 5, "-o", path / "homes.pbp"]]) == 0
    return path


def table_model(path: Path) -> TableModel:
    model = probprop.load(path)
    assert isinstance(model, TableModel)
    return model


# ---- The path of a new user


@pytest.mark.parametrize(("data", "target"), [("diabetes.csv", "target"), ("homes.csv", "price")])
def test_fit_info_evaluate_predict_update_predict(
    folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    data: str,
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    table = str(folder / data)
    rows = pd.read_csv(table)
    first, second, new = rows[:-80], rows[-80:-40], rows[-40:].drop(columns=target)
    first.to_csv("first.csv", index=False)
    second.to_csv("second.csv", index=False)
    new.to_csv("new.csv", index=False)

    assert run(["fit", "--fast", "first.csv", "--target", target, "-o", "model.pbp"]) == 0
    out, err = capfd.readouterr()
    n_test = round(0.1 * len(first))
    assert (
        f"fitted on {len(first) - n_test} rows and evaluated on a test set of {n_test} rows:" in err
    )
    assert f"wrote model.pbp: {len(first) - n_test} rows" in err
    assert "this network is kept; --test-fraction 0 trains on all rows" in err
    assert re.search(r"inside 95 % interval +\d+\.\d %", out)

    assert run(["info", "model.pbp"]) == 0
    out = capfd.readouterr().out
    n_fitted = len(first) - n_test
    for fact in (target, "50 hidden units", f"{n_fitted} samples", "40 epochs", "interval"):
        assert fact in out
    assert f"probprop {probprop.__version__}" in out
    assert f"{Path('model.pbp').stat().st_size:,} bytes" in out

    assert run(["evaluate", "model.pbp", "second.csv"]) == 0
    assert "calibration error" in capfd.readouterr().out

    assert run(["predict", "model.pbp", "new.csv", "-o", "one.csv"]) == 0
    assert run(["update", "model.pbp", "second.csv"]) == 0
    assert f"with 40 rows: {n_fitted + 40} rows seen" in capfd.readouterr().err
    assert run(["predict", "model.pbp", "new.csv", "-o", "two.parquet"]) == 0

    one, two = pd.read_csv("one.csv"), pd.read_parquet("two.parquet")
    assert list(one) == list(two) == [*new, *ADDED]
    assert (one["mean"] != two["mean"]).all()
    expected = table_model(Path("model.pbp")).predict_distribution(new)
    np.testing.assert_allclose(two["mean"], expected.mean, rtol=1e-12)
    np.testing.assert_allclose(two["std"], expected.std, rtol=1e-12)
    assert not list(tmp_path.glob(".probprop-*"))


# ---- fit


def fitted(folder: Path, tmp_path: Path, *options: str) -> TableModel:
    target = tmp_path / "m.pbp"
    table = str(folder / "homes.csv")
    arguments = [
        "fit",
        "--fast",
        table,
        "--target",
        "price",
        "--n-epochs",
        "2",
        "-q",
        "-o",
        str(target),
    ]
    assert run([*arguments, *options]) == 0
    return table_model(target)


def test_one_network_is_saved_as_it_was_scored(folder: Path, tmp_path: Path) -> None:
    n = len(pd.read_csv(folder / "homes.csv"))
    assert fitted(folder, tmp_path).estimator.n_samples_seen_ == n - round(0.1 * n)
    held_out = fitted(folder, tmp_path, "--test-fraction", "0.25")
    assert held_out.estimator.n_samples_seen_ == n - round(0.25 * n)
    assert fitted(folder, tmp_path, "--test-fraction", "0").estimator.n_samples_seen_ == n


def test_fit_takes_its_options(folder: Path, tmp_path: Path) -> None:
    options = [
        "--hidden-layer-sizes",
        "7,3",
        "--n-epochs",
        "3",
        "--dtype",
        "float32",
        "--random-state",
        "5",
    ]
    model = fitted(folder, tmp_path, *options, "--features", "area, rooms", "--features", "city")
    assert model.features == ["city", "rooms", "area"]  # in the order of the table
    assert model.estimator.posterior_.layer_sizes[1:] == (7, 3, 1)
    assert model.estimator.posterior_.dtype == np.float32
    assert model.estimator.n_iter_ == 3
    assert model.estimator.random_state == 5
    assert fitted(folder, tmp_path, "--drop", "id,city,new").features == ["rooms", "area", "fixed"]


def test_the_same_seed_gives_the_same_model(folder: Path, tmp_path: Path) -> None:
    noise = [
        fitted(folder, tmp_path, "--random-state", seed).estimator.noise_variance_
        for seed in ("1", "1", "2")
    ]
    assert noise[0] == noise[1] != noise[2]


def test_the_scores_of_fit_are_out_of_sample(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Scores of a model that interpolates its rows would be perfect on them."""
    rows = pd.DataFrame({"x": np.arange(40.0), "y": np.random.RandomState(0).normal(size=40)})
    rows.to_csv(tmp_path / "noise.csv", index=False)
    table, target = str(tmp_path / "noise.csv"), str(tmp_path / "m.pbp")
    assert (
        run(["fit", "--fast", table, "--target", "y", "--test-fraction", "0.5", "-o", target]) == 0
    )
    scores = capfd.readouterr().out
    order = np.random.RandomState(0).permutation(40)
    train, test = rows.iloc[np.sort(order[20:])], rows.iloc[np.sort(order[:20])]
    model = PBPRegressor(50, random_state=0).fit(train[["x"]].to_numpy(), train["y"])
    error = np.sqrt(np.mean((model.predict(test[["x"]].to_numpy()) - test["y"]) ** 2))
    assert f"{error:.4g}" in scores


def test_fit_writes_a_report_on_the_test_rows(folder: Path, tmp_path: Path) -> None:
    fitted(folder, tmp_path, "--report", str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text()
    assert "Predicting price" in text
    assert "test samples" in text


# ---- predict


def predict(folder: Path, *arguments: object) -> int:
    return run(["predict", str(folder / "homes.pbp"), *(str(a) for a in arguments)])


def test_every_format_has_the_same_predictions(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pd.read_csv(folder / "new.csv").to_parquet(tmp_path / "new.parquet")
    assert predict(folder, folder / "new.csv", "-o", tmp_path / "out.csv") == 0
    assert predict(folder, tmp_path / "new.parquet", "-o", tmp_path / "out.tsv") == 0
    assert predict(folder, folder / "new.csv", "-o", tmp_path / "out.parquet") == 0
    capfd.readouterr()
    assert predict(folder, folder / "new.csv", "--quiet") == 0
    printed = pd.read_csv(io.StringIO(capfd.readouterr().out))
    expected = table_model(folder / "homes.pbp").predict_distribution(homes()[500:550])
    for frame, rtol in (
        (printed, 1e-3),  # text has four digits of each standard deviation
        (pd.read_csv(tmp_path / "out.csv"), 1e-3),
        (pd.read_csv(tmp_path / "out.tsv", sep="\t"), 1e-3),
        (pd.read_parquet(tmp_path / "out.parquet"), 1e-12),
    ):
        assert list(frame)[-6:] == ADDED
        assert (np.abs(frame["mean"] - expected.mean) <= rtol * expected.std).all()
        np.testing.assert_allclose(frame["epistemic_std"], expected.epistemic_std, rtol=rtol)
        np.testing.assert_allclose(frame["aleatoric_std"], expected.aleatoric_std, rtol=rtol)
        assert frame["city"].tolist() == homes()["city"][500:550].tolist()


def test_the_level_sets_the_interval(folder: Path, tmp_path: Path) -> None:
    assert predict(folder, folder / "new.csv", "--coverage", 0.5, "-o", tmp_path / "out.pq") == 0
    frame = pd.read_parquet(tmp_path / "out.pq")
    expected = table_model(folder / "homes.pbp").predict_distribution(homes()[500:550])
    lower, upper = expected.interval(0.5)
    np.testing.assert_allclose(frame["lower"], lower, rtol=1e-12)
    np.testing.assert_allclose(frame["upper"], upper, rtol=1e-12)


def test_columns_are_matched_by_name_and_the_others_kept_as_they_are(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = pd.read_csv(folder / "new.csv", dtype=str)
    text[list(text)[::-1]].to_csv(tmp_path / "reversed.csv", index=False)
    assert predict(folder, tmp_path / "reversed.csv", "-o", tmp_path / "out.csv") == 0
    assert "columns that the model does not use are copied: id\n" in capfd.readouterr().err
    frame = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert frame["id"].tolist() == text["id"].tolist()
    assert frame["id"][0] == "00500"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_chunks_change_nothing(folder: Path, tmp_path: Path, limits: Limits, suffix: str) -> None:
    whole, parts = tmp_path / f"whole.{suffix}", tmp_path / f"parts.{suffix}"
    assert predict(folder, folder / "new.csv", "-o", whole) == 0
    limits.chunks_of(7)
    assert predict(folder, folder / "new.csv", "-o", parts) == 0
    reader = pd.read_csv if suffix == "csv" else pd.read_parquet
    pd.testing.assert_frame_equal(reader(parts), reader(whole))


def test_unknown_categories_are_counted_over_all_chunks(
    folder: Path,
    tmp_path: Path,
    limits: Limits,
    capfd: pytest.CaptureFixture[str],
) -> None:
    frame = pd.read_csv(folder / "new.csv", dtype=str)
    frame.loc[[1, 20, 40], "city"] = "Atlantis"
    frame.to_csv(tmp_path / "new.csv", index=False)
    limits.chunks_of(7)
    assert predict(folder, tmp_path / "new.csv", "-o", tmp_path / "out.csv") == 0
    notes = [line for line in capfd.readouterr().err.splitlines() if "fitted on" in line]
    assert len(notes) == 1
    assert (
        "3 rows with categories of 'city' that the model was not fitted on ('Atlantis')" in notes[0]
    )
    assert notes[0].endswith("; they are treated as missing values")


def test_tables_come_and_go_through_pipes(folder: Path) -> None:
    code = "from probprop.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "predict", str(folder / "homes.pbp"), "-"],
        input=(folder / "new.csv").read_bytes(),
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    assert len(pd.read_csv(io.BytesIO(result.stdout))) == 50
    assert b"\x1b" not in result.stdout + result.stderr


# ---- evaluate, info


def test_evaluate_prints_json_and_writes_a_report(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, data = str(folder / "homes.pbp"), str(folder / "sold.csv")
    assert run(["evaluate", model, data, "--json", "--report", str(tmp_path / "r.html"), "-q"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    scores = json.loads(out)
    sold = homes()[550:]
    predicted = table_model(folder / "homes.pbp").predict_distribution(sold)
    assert scores["rows"] == len(sold)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((predicted.mean - sold["price"]) ** 2)))
    assert scores["log_likelihood"] == pytest.approx(predicted.logpdf(sold["price"]).mean())
    assert {"mae", "crps", "calibration_error"} < set(scores)
    assert {f"coverage_{level}" for level in (50, 80, 90, 95)} < set(scores)
    assert scores["left_out"] == {}
    [(mean, std)] = table_model(folder / "homes.pbp").baseline
    price = homes()[:500]["price"]  # a tenth of which is the validation set
    assert (mean, std) == pytest.approx((price.mean(), price.std(ddof=0)), rel=0.05)
    error = sold["price"] - mean
    assert scores["baseline"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert scores["baseline"]["log_likelihood"] == pytest.approx(
        norm.logpdf(sold["price"], mean, std).mean()
    )
    assert scores["baseline"].keys() == scores.keys() - {"rows", "baseline", "left_out", "verdict"}
    found = verdict(sold["price"], predicted)
    assert scores["verdict"] == json.loads(json.dumps(found.as_dict()))
    assert scores["verdict"]["words"] == str(found)
    assert "<html" in (tmp_path / "r.html").read_text()


def test_info_takes_a_model_saved_from_python(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.linspace(-1.0, 1.0, 30)[:, None]
    path = tmp_path / "plain.pbp"
    PBPRegressor(4, n_epochs=2, random_state=0).fit(x, x[:, 0]).save(path)
    assert run(["info", str(path)]) == 0
    assert "4 hidden units" in capfd.readouterr().out


IMPORTED = """
import sys
from probprop.cli.application import run
code = run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


def imported(folder: Path, *arguments: str) -> set[str]:
    """Run a command in a process of its own, and return the modules that it imported."""
    command = [sys.executable, "-c", IMPORTED, *arguments, "-q"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return {*done.stderr.split()}


@pytest.mark.process
def test_info_and_predict_import_no_more_than_they_need(folder: Path, tmp_path: Path) -> None:
    found = imported(folder, "info", "homes.pbp")
    assert not found & {"sklearn", "pandas", "scipy", "matplotlib", "dask"}
    out = str(tmp_path / "predicted.csv")
    found = imported(folder, "predict", "homes.pbp", "sold.csv", "-o", out)
    assert "sklearn.base" in found
    assert not found & {
        *("matplotlib", "dask", "distributed", "jinja2", "probprop.report", "probprop.metrics"),
        *("sklearn.covariance", "sklearn.linear_model", "sklearn.metrics"),
        *("sklearn.inspection", "sklearn.model_selection"),
    }


# ---- demo, help


def test_demo_prints_its_scores_and_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--fast"]) == 0
    out, err = capfd.readouterr()
    for word in ("baseline", "RMSE", "log-likelihood", "CRPS", "95 %"):
        assert word in out
    assert "probprop fit penguins.csv --target body_mass_g --fast" in err
    assert "missing numbers" not in err  # only the sex of some is missing
    assert str(tmp_path / "probprop-demo.html") in out
    report = (tmp_path / "probprop-demo.html").read_text()
    for word in ("flipper_length_mm", "What if"):
        assert word in report
    assert run(["info", "probprop-demo.pbp", "--json"]) == 0
    rmse = json.loads(capfd.readouterr().out)["scores"]["targets"]["body_mass_g"]["rmse"]
    assert rmse < 0.6 * 802.0  # the standard deviation of all penguins


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "evaluate", "update", "info"])
def test_the_help_of_every_command_has_an_example(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    out = capfd.readouterr().out
    assert re.search(rf"^  Examples?:\n    .*probprop {command}", out, re.MULTILINE)


def test_without_a_command_the_help_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Usage: probprop" in capfd.readouterr().out
    assert run(["--version"]) == 0
    assert capfd.readouterr().out == f"probprop {probprop.__version__}\n"


def test_info_as_json_has_every_fact(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = folder / "homes.pbp"
    assert run(["info", str(path)]) == 0
    facts, columns = capfd.readouterr().out.split("\n\n")
    printed = [re.split(r" {2,}", line, maxsplit=1) for line in facts.splitlines()]
    assert run(["info", str(path), "--json", "-q"]) == 0
    found = json.loads(capfd.readouterr().out)
    words = {name.lower().replace(" ", "_"): value for name, value in printed}
    assert words.pop("evaluated_on") == "50 test samples"
    shown = words.pop("scores")
    assert {*words} | {"features", "columns", "targets", "scores"} == {*found}
    assert {k: v for k, v in words.items() if k != "file_size"}.items() <= {
        k: v for k, v in found.items() if isinstance(v, str)
    }.items()
    assert found["file_size"] == path.stat().st_size
    assert found["targets"] == ["price"]
    cities = ["Lima, north", "Oslo", "Rome"]
    assert found["features"][0] == {"name": "city", "kind": "text", "categories": cities}
    assert found["features"][1] == {"name": "rooms", "kind": "number", "categories": None}
    known = table_model(path).columns_
    assert found["columns"] == known.to_dict("records")
    assert [line.split() for line in columns.splitlines()] == [
        [*known],
        *([word for cell in row for word in str(cell).split()] for row in known.to_numpy()),
    ]
    scores = found["scores"]
    assert (scores["measured_on"], scores["n_samples"]) == ("held-out", 50)
    assert f"inside 95 % interval {100 * scores['targets']['price']['coverage_95']:.1f} %" in shown


@pytest.mark.parametrize("options", ["", "--random-state 1"])
def test_the_model_keeps_the_scores_that_fit_printed(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], options: str
) -> None:
    path = tmp_path / "m.pbp"
    line = (
        f"fit {folder}/homes.csv --target price --drop id --fast --n-epochs 2 -o {path} {options}"
    )
    assert run(line.split()) == 0
    printed = dict(re.findall(r"^(\S.*?) {2,}(\S+(?: %)?) ", capfd.readouterr().out, re.MULTILINE))
    kept = table_model(path).scores
    assert kept is not None
    for name, value in kept["targets"]["price"].items():
        assert printed[LABELS[name]] == show(name, value)
    assert run(["update", str(path), str(folder / "sold.csv"), "-q"]) == 0
    assert table_model(path).scores == kept  # they are about the fit
    assert run([*line.split(), "--test-fraction", "0"]) == 0
    assert table_model(path).scores is None
    capfd.readouterr()
    assert run(["info", str(path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["scores"] is None


def test_predict_adds_the_requested_quantiles(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, output = folder / "homes.pbp", tmp_path / "out.parquet"
    line = f"predict {model} {folder}/new.csv -o {output} --coverage 0.8 --quantiles"
    assert run([*line.split(), "0.1,0.5, 0.9"]) == 0
    found = pd.read_parquet(output)
    added = ["quantile_0.1", "quantile_0.5", "quantile_0.9"]
    assert list(found)[-9:] == [*ADDED, *added]
    np.testing.assert_allclose(found["quantile_0.1"], found["lower"], rtol=1e-9)
    np.testing.assert_allclose(found["quantile_0.9"], found["upper"], rtol=1e-9)
    expected = table_model(model).predict_distribution(pd.read_csv(folder / "new.csv"))
    np.testing.assert_allclose(found["quantile_0.5"], expected.ppf(0.5), rtol=1e-12)
    for wrong in ("0,0.5", "1", "nan", "some", ""):
        capfd.readouterr()
        assert run([*line.split(), wrong]) == 2
        assert "is not a list of numbers between 0 and 1" in capfd.readouterr().err


def test_quantiles_of_several_targets_and_of_classes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    homes(60).to_csv("homes.csv", index=False)
    options = "--drop id --fast --n-epochs 1 --test-fraction 0"
    assert run(f"fit homes.csv --target price,area {options} -o two.pbp".split()) == 0
    assert run(["predict", "two.pbp", "homes.csv", "--quantiles", "0.25", "-o", "two.csv"]) == 0
    assert {"price_quantile_0.25", "area_quantile_0.25"} < {*pd.read_csv("two.csv")}
    assert run(f"fit homes.csv --target city {options} -o city.pbp".split()) == 0
    capfd.readouterr()
    assert run(["predict", "city.pbp", "homes.csv", "--quantiles", "0.25"]) == 2
    assert "predicts classes, which have no quantiles" in capfd.readouterr().err


def test_quiet_commands_print_their_results(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fit = f"fit --fast --n-epochs 2 --target price {folder}/homes.csv -o {tmp_path}/m.pbp"
    lines = [fit, f"evaluate {folder}/homes.pbp {folder}/sold.csv", f"info {folder}/homes.pbp"]
    for line in lines:
        capfd.readouterr()
        assert run(line.split()) == 0
        spoken = capfd.readouterr()
        assert run([*line.split(), "-q"]) == 0
        quiet = capfd.readouterr()
        assert quiet.err == ""
        assert quiet.out == spoken.out != ""


def test_quiet_goes_anywhere_and_silences_all_but_results(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, data, out = str(folder / "homes.pbp"), str(folder / "new.csv"), str(tmp_path / "o.csv")
    for arguments in (["-q", "predict", model, data], ["predict", model, data, "--quiet"]):
        assert run([*arguments, "-o", out]) == 0
        assert capfd.readouterr() == ("", "")


def test_warnings_of_training_are_notes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.linspace(-1.0, 1.0, 400)
    pd.DataFrame({"x": x, "y": np.where(np.arange(400) == 30, 1e9, x)}).to_csv(
        tmp_path / "outlier.csv", index=False
    )
    arguments = ["fit", "--fast", str(tmp_path / "outlier.csv"), "--target", "y", "--n-epochs", "2"]
    assert run([*arguments, "-o", str(tmp_path / "m.pbp")]) == 0
    assert "note:" not in capfd.readouterr().err  # of interest to those who know the algorithm
    assert run([*arguments, "-v", "-o", str(tmp_path / "m.pbp")]) == 0
    err = capfd.readouterr().err
    assert "Warning" not in err
    assert "note: In " in err


def test_bars_and_notes_share_one_console(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With two, a note lands in the middle of a bar.
    made = []

    def make(*, quiet: bool, verbose: bool) -> Terminal:
        made.append(make_terminal(quiet=quiet))
        return made[-1]

    monkeypatch.setattr(application, "make_terminal", make)
    assert run(["info", str(folder / "homes.pbp")]) == 0
    assert len(made) == 1

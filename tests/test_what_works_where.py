"""Every cell of the table in docs/guide/large.md: a tiny fit that works, or is refused in words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import probprop
from dask_clusters import table
from limits import Limits
from probprop import (
    Candidate,
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
)
from probprop.cli import application
from probprop.data import scratch
from probprop.data.scratch import LEAST
from probprop.table import fit_table_model

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:In .* updates"),  # with so few rows
]

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "large.md"
N = 120
PLACES = ("memory", "disk", "cluster")


def cells() -> list[tuple[str, str, str]]:
    """Read the table: feature, place and cell."""
    lines = PAGE.read_text().partition("## What works where")[2].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    header, _, *body = rows
    return [(row[0], *pair) for row in body for pair in zip(header[1:], row[1:], strict=True)]


CELLS = cells()
TRIED = [cell for cell in CELLS if cell[2] not in ("no (1)", "no (3)")]
"""Without the cells in which there is nothing to try: the command takes only files, and a Dask
collection is on a cluster wherever it is fitted from."""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"processes": False, "protocol": "tcp", "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        Client(cluster) as found,
    ):
        yield found


@pytest.fixture(autouse=True)
def small(limits: Limits, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits.epochs_of_fast(1, 2)
    monkeypatch.chdir(tmp_path)
    frame = rows()
    frame[:60].to_csv("0.csv", index=False)
    frame[60:].to_csv("1.csv", index=False)
    frame[:60].to_parquet("0.parquet", index=False)
    frame[60:].to_parquet("1.parquet", index=False)


def rows() -> pd.DataFrame:
    frame = table(N).assign(w=np.arange(N) % 3, e=0.1, z=lambda f: f["a"] - f["c"])
    frame["label"] = np.where(frame["y"] > 50.0, "high", "low")
    frame["kind"] = np.where(frame["a"] > 0.0, "warm", "cold")
    frame["ripe"] = frame["b"] > 0.0
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), "h")
    frame["gap"] = np.where(np.arange(N) % 9, frame["c"], np.nan)
    frame["odd"] = np.where(np.arange(N) % 7, frame["kind"], "unknown")
    return frame


FEATURES = ("a", "b", "c")


def network(**changed: Any) -> PBPRegressor:
    return PBPRegressor((4,), **({"n_epochs": 2, "random_state": 0} | changed))


def chosen(kind: Any = PBPRegressorCV, **changed: Any) -> Any:
    only = (
        [Candidate(hidden_layer_sizes=(4,), noise="constant")]
        if kind is PBPRegressorCV
        else [Candidate()]
    )
    options = {"cv": 2, "candidates": only, "budget": "fast", "random_state": 0}
    return kind(**options | changed)


def arrays(*names: str) -> tuple[Any, ...]:
    frame = rows()
    return frame[list(FEATURES)].to_numpy(), *(frame[name].to_numpy() for name in names)


class Python:
    """Fits by `probprop.fit` at a place."""

    def __init__(self, place: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.client = place, client
        self.written: list[int] = []  # rows that went to disk
        write = scratch.Scratch.write
        if place == "disk":
            Limits(monkeypatch).on_disk()

        def noted(file: scratch.Scratch) -> None:
            write(file)
            self.written.append(file.n)

        monkeypatch.setattr(scratch.Scratch, "write", noted)

    def fit(self, estimator: Any, source: Any, **options: Any) -> Any:
        """Fit and check that the model predicts, and that the rows were where they should be."""
        if self.place == "cluster":
            options["client"] = self.client
        elif self.place == "disk":
            options["memory_limit"] = LEAST
        self.written.clear()
        model = probprop.fit(estimator, source, **options)
        assert len(model.predict(self._rows(model))) == N
        assert bool(self.written) == (self.place == "disk")
        return model

    def _rows(self, model: Any) -> Any:
        if hasattr(model, "features"):
            return rows()
        names = getattr(model, "feature_names_in_", None)
        return arrays()[0] if names is None else rows()[list(names)]

    def files(self, estimator: Any, *features: str, **options: Any) -> Any:
        options = {"target": "y", "features": [*(features or FEATURES)]} | options
        self.fit(estimator, "*.csv", **options)
        return self.fit(estimator, ["0.parquet", "1.parquet"], **options)


class Command:
    """Fits by the command at a place."""

    def __init__(
        self, place: str, client: Client, capfd: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.options = "--features a,b,c"
        self.capfd = capfd
        if place == "command, `--dask`":
            self.options += f" --dask {client.scheduler.address}"
        elif place == "command, `--memory-limit`":
            limits = Limits(monkeypatch)
            limits.tables_above_memory()
            limits.on_disk()
        self.on_disk = "memory-limit" in place

    def run(self, options: str, code: int = 0) -> str:
        self.capfd.readouterr()
        command = f"fit 0.csv 1.csv -o m.pbp {options}"
        if "--features" not in options:
            command += f" {self.options}"
        else:
            command += " " + self.options.replace("--features a,b,c", "")
        found = application.run(shlex.split(command))
        said = self.capfd.readouterr().err
        assert found == code, said
        if code == 0:
            assert ("on disk" in said) == self.on_disk
            assert probprop.load("m.pbp").predict(rows()).shape[0] == N
        return " ".join(said.split())


FAST, CHOSEN = "--target y --hidden-layer-sizes 4 --n-epochs 2", "--target y --budget fast"


def in_python(feature: str, at: Python) -> None:
    """Try a feature; what is refused raises."""
    frame = rows()
    match feature.replace("`", ""):
        case "arrays, data frames":
            at.fit(network(), arrays("y"))
            at.fit(network(), frame[[*FEATURES, "kind", "y"]], target="y")
        case "Parquet and text files":
            at.files(network())
        case "blocks of rows":
            X, y = arrays("y")
            at.fit(network(), [(X[:50], y[:50]), (X[50:], y[50:])])
        case "Dask collections":
            import dask.array as da

            X, y = (da.from_array(a, chunks=60) for a in arrays("y"))
            at.fit(network(), (X, y))
        case "one network":
            at.files(network())
            at.fit(PBPClassifier((4,), n_epochs=2, random_state=0), arrays("label"))
        case "cross-validation":
            model = at.files(chosen())
            assert len(model.oof_rows_) == N
            at.fit(chosen(PBPClassifierCV), arrays("label"))
        case "cv that is not an int":
            at.fit(chosen(cv=[(np.arange(60), np.arange(60, N))]), arrays("y"))
        case "sample weights":
            model = at.files(network(), weight="w")
            assert model.n_samples_seen_ == 80
            assert at.fit(network(), arrays("y", "w")).n_samples_seen_ == 80
        case "sample weights, cross-validation":
            assert at.files(chosen(), weight="w").mean_sample_weight_ == pytest.approx(1.5)
        case "known errors of the target":
            at.files(network(), error="e")
            at.fit(network(), (*arrays("y"), None, rows()["e"]))
        case "known errors, cross-validation":
            with pytest.raises(ValueError, match="PBPClassifierCV does not accept known errors"):
                at.fit(chosen(PBPClassifierCV), (*arrays("label"), None, rows()["e"]))
            assert at.files(chosen(), error="e").calibration_.recalibration is None
        case "several targets":
            assert at.files(network(), target=["y", "z"]).n_outputs_ == 2
        case "several targets, cross-validation":
            assert at.files(chosen(), target=["y", "z"]).n_outputs_ == 2
        case "multilabel targets":
            X, y = arrays("y")
            labels = np.column_stack([y > 50.0, X[:, 0] > 0.0, X[:, 1] > 0.0]).astype(int)
            assert at.fit(PBPClassifier((4,), n_epochs=2), (X, labels)).multilabel_
            assert at.fit(chosen(PBPClassifierCV), (X, labels)).multilabel_
        case "missing values":
            at.files(network(missing="marginalize"), "a", "gap")
        case "missing values, cross-validation":
            at.files(chosen(missing="marginalize"), "a", "gap")
        case "categories, dates, true and false":
            model = at.files(network(), "a", "kind", "ripe", "when")
            assert model.kinds == {"a": "number", "kind": "text", "ripe": "boolean", "when": "date"}
        case "texts that mean a missing value":
            model = at.files(network(missing="marginalize"), "a", "odd", na=["unknown"])
            assert model.categories == {"odd": ["cold", "warm", "(missing)"]}
        case "checkpoint":
            first, second = (at.fit(network(), arrays("y"), checkpoint="c") for _ in range(2))
            assert Path("c").exists()
            assert first.history_ == second.history_
        case "checkpoint, cross-validation":
            at.fit(chosen(), arrays("y"), checkpoint="c")
            assert Path("c" if at.place == "memory" else "c.choice").exists()
        case "groups, folds in time":
            if at.place != "memory":  # `probprop.fit` has no such options
                at.fit(chosen(), frame[["a", "kind", "y"]], target="y", group="kind")
            fit_table_model(frame[["a", "kind", "y"]], "y", group="kind", estimator=chosen())
            fit_table_model(frame[["a", "b", "y"]], "y", time="b", estimator=chosen())
        case (
            "scores and report on a test set"
            | "scores and report, cross-validation"
            | "report on one network without a test set"
        ):
            at.fit(network(), arrays("y"), report="page.html")
        case _:
            raise AssertionError(feature)


def in_command(feature: str, at: Command) -> None:
    """Try a feature; what is refused raises, with the words of the command."""

    def refused(options: str, code: int = 2) -> None:
        raise ValueError(at.run(options, code))

    match feature.replace("`", ""):
        case "cv that is not an int":
            refused(f"{CHOSEN} --cv 2")
        case "multilabel targets":
            refused("--target label,ripe --task classification --fast", code=1)
        case "Parquet and text files" | "one network":
            at.run(FAST)
            at.run(f"{FAST.replace(' y', ' label')}")
        case "cross-validation":
            assert "selected: " in at.run(CHOSEN)
            assert "selected: " in at.run(CHOSEN.replace(" y", " label"))
        case "sample weights":
            at.run(f"{FAST} --weight w")
        case "sample weights, cross-validation":
            assert "selected: " in at.run(f"{CHOSEN} --weight w")
        case "known errors of the target":
            at.run(f"{FAST} --error e")
        case "several targets":
            at.run(f"{FAST} --target z")
            assert probprop.load("m.pbp").predict(rows()).shape == (N, 2)
        case "known errors, cross-validation":
            if at.on_disk or "--dask" in at.options:
                refused(f"{CHOSEN} --error e", code=1)
            assert "selected: " in at.run(f"{CHOSEN} --error e")
        case "several targets, cross-validation":
            if at.on_disk or "--dask" in at.options:
                refused(f"{CHOSEN} --target z", code=1)
            assert "selected: " in at.run(f"{CHOSEN} --target z")
        case "missing values":
            at.run(f"{FAST} --features a,gap")
        case "missing values, cross-validation":
            assert "selected: " in at.run(f"{CHOSEN} --features a,gap")
        case "categories, dates, true and false":
            at.run(f"{FAST} --features a,kind,ripe,when")
        case "texts that mean a missing value":
            at.run(f"{FAST} --features a,odd --na unknown")
            assert probprop.load("m.pbp").categories == {"odd": ["cold", "warm", "(missing)"]}
        case "checkpoint":
            at.run(f"{FAST} --checkpoint c")
            assert Path("c").exists()
        case "checkpoint, cross-validation":
            at.run(f"{CHOSEN} --checkpoint c")
            assert [*Path().glob("c*")]
        case "scores and report on a test set":
            assert "on a test set of" in at.run(f"{FAST} --report page.html --static")
            assert Path("page.html").exists()
        case "scores and report, cross-validation":
            said = at.run(f"{CHOSEN} --report page.html --static")
            assert "evaluated on 120 out-of-fold rows: each is predicted by networks that" in said
            assert "not trained on it" in Path("page.html").read_text()
        case "groups, folds in time":
            if at.on_disk or "--dask" in at.options:
                at.run(f"{CHOSEN} --time a", code=2)
                refused(f"{CHOSEN} --group kind")
            at.run(f"{CHOSEN} --group kind")
            at.run(f"{CHOSEN} --time a")
        case "report on one network without a test set":
            options = f"{FAST} --report page.html --static --test-fraction 0"
            refused(options) if at.on_disk or "--dask" in at.options else at.run(options)
        case _:
            raise AssertionError(feature)


REFUSED = {
    "2": "an iterable of blocks is for one machine",
    "4": 'cv must be "auto" or an int',
    "5": "No such option",
    "6": "accepts (known errors|several targets) if",
    "7": "one column|one target|classes",
    "8": "unexpected keyword argument 'report'",
    "9": "leave --test-fraction 0 out",
    "10": "unexpected keyword argument 'group'",
    "11": "the folds are random: give a larger --memory-limit",
}


@pytest.mark.parametrize(("feature", "place", "cell"), TRIED)
def test_a_cell_is_true(
    feature: str,
    place: str,
    cell: str,
    client: Client,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tried() -> None:
        if place in PLACES:
            in_python(feature, Python(place, client, monkeypatch))
        else:
            in_command(feature, Command(place, client, capfd, monkeypatch))

    if cell == "yes":
        tried()
        return
    number = re.fullmatch(r"no \((\d+)\)", cell)
    assert number is not None, cell
    with pytest.raises((ValueError, TypeError), match=REFUSED[number[1]]):
        tried()


def test_every_missing_entry_is_explained() -> None:
    text = PAGE.read_text().partition("## What works where")[2]
    explained = {*re.findall(r"^(\d+)\. ", text, re.MULTILINE)}
    used = {found for *_, cell in CELLS for found in re.findall(r"\d+", cell)}
    assert used == explained == {*REFUSED, "1", "3"}
    assert len(CELLS) > 100

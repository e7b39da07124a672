"""`--dask` and `--checkpoint`: the command on a cluster, and fits that resume."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dask_clusters import in_files, processes, table
from interruptions import Steps
from limits import Limits
from probprop import PBPClassifierCV, load
from probprop.cli import application
from probprop.data import fit
from probprop.facts import choice_in_words


def run(*arguments: str) -> int:
    """Run the command and return its exit code."""
    return application.run(list(arguments))


@pytest.mark.process
def test_fit_on_a_cluster(tmp_path: Path, capfd) -> None:
    pattern = in_files(table(4000).assign(kind="x"), tmp_path / "data", 3)
    model = str(tmp_path / "m.pbp")
    with processes(2) as client:
        address = client.scheduler.address
        options = ["--target", "y", "--n-epochs", "4", "--drop", "b", "--checkpoint"]
        where = ["--dask", address, "-o", model]
        assert run("fit", pattern, *options, str(tmp_path / "c"), *where) == 0
        said = capfd.readouterr().err
        assert "2 workers" in said
        assert "fitted on 3,600 rows and evaluated on a test set of 400 rows:" in said
        assert "fitting 3,600 rows in 2 shards" in said
        assert "3,600 rows, 3 features" in said
        fitted = load(model)
        assert fitted.features == ["a", "c", "kind"]
        assert fitted.estimator.n_samples_seen_ == 3600
        [(mean, std)] = fitted.baseline
        y = table(4000)["y"]  # a tenth of which is the validation set
        assert (mean, std) == pytest.approx((y.mean(), y.std()), rel=0.1)
        alone = fit(fitted.estimator, pattern, target="y", client=client)
    assert alone.estimator.n_samples_seen_ == 4000


@pytest.mark.process
def test_hyperparameters_are_selected_on_a_cluster_and_scored_out_of_fold(
    tmp_path: Path, capfd, limits: Limits
) -> None:
    limits.epochs_of_fast(4, 8)
    frame = table(1000).assign(label=lambda f: np.where(f["y"] > 50.0, "high", "low"))
    pattern = in_files(frame.drop(columns="y"), tmp_path / "data", 2)
    model, page = tmp_path / "m.pbp", tmp_path / "r.html"
    command = ["fit", pattern, "--target", "label", "--budget", "fast", "--report", str(page)]
    with processes(2) as client:
        address = client.scheduler.address
        assert run(*command, "--static", "--dask", address, "-o", str(model)) == 0
    said = capfd.readouterr()
    assert "selected: " in said.err
    assert "calibrated: " in said.err
    evaluated = said.err.index(
        "fitted on 1,000 rows and evaluated on 1,000 out-of-fold rows: each is"
    )
    assert said.err.index(f"wrote {model}") < evaluated < said.err.index(f"wrote {page}")
    [accuracy] = re.findall(r"^accuracy +(\S+) %", said.out, re.M)
    assert float(accuracy) > 80.0  # rows and their predictions belong together
    estimator = load(model).estimator
    assert isinstance(estimator, PBPClassifierCV)
    assert estimator.n_samples_seen_ == 1000
    assert f"Chosen: {'; '.join(choice_in_words(estimator).splitlines())}." in page.read_text()
    assert "is predicted by networks that were not trained on it" in page.read_text()


def test_options_that_are_not_for_a_cluster(tmp_path: Path, capfd) -> None:
    for option, words in (
        (["--budget", "good", "--fast"], "with --fast one network is fitted"),
        (["--group", "a"], "the folds are random: give a larger --memory-limit"),
        (["--time", "a"], "the folds are random: give a larger --memory-limit"),
    ):
        where = ["--dask", "local", "-o", str(tmp_path / "m.pbp")]
        assert run("fit", "x.parquet", "--target", "y", *where, *option) == 2
        assert words in " ".join(capfd.readouterr().err.split())
    assert run("fit", "-", "--target", "y", "--dask", "local", "-o", str(tmp_path / "m.pbp")) == 2
    assert "not standard input" in " ".join(capfd.readouterr().err.split())


def test_a_fit_resumes_from_its_checkpoint(tmp_path: Path, capfd) -> None:
    data, out, kept = tmp_path / "t.csv", tmp_path / "m.pbp", tmp_path / "c"
    table(300).to_csv(data, index=False)
    command = ["fit", str(data), "--target", "y", "--n-epochs", "5", "--checkpoint", str(kept)]
    assert run(*command, "-o", str(out)) == 0
    first = out.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "m.pbp", "c"}
    assert run(*command, "-o", str(out)) == 0
    assert out.read_bytes() == first
    assert run(*command, "--random-state", "1", "-o", str(out)) == 1
    assert "has other parameters (random_state was 0 and is 1)" in capfd.readouterr().err


def test_a_comparison_resumes_from_its_checkpoint(
    tmp_path: Path, capfd, steps: Steps, limits: Limits
) -> None:
    limits.epochs_of_fast(4, 8)
    data, out, kept = tmp_path / "t.csv", tmp_path / "m.pbp", tmp_path / "c"
    table(300).to_csv(data, index=False)
    command = ["fit", str(data), "--target", "y", "--checkpoint", str(kept), "-o", str(out)]
    assert run(*command, "--budget", "fast") == 0
    first = out.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "m.pbp", "c"}
    steps.n = 0
    assert run(*command, "--budget", "fast") == 0
    assert steps.n == 0  # nothing is trained again
    assert out.read_bytes() == first
    assert run(*command, "--budget", "fast", "--random-state", "1") == 1
    assert "random_state was 0 and is 1" in capfd.readouterr().err
    assert run(*command, "--budget", "5") == 2
    assert "'5' is not one of 'fast', 'good', 'best'" in capfd.readouterr().err

"""`probprop fit --noise input --noise-tail heavy`: from the table to the columns of predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import probprop
from probprop.cli.application import app

pytestmark = pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.RandomState(0)
    x = rng.uniform(0.0, 1.0, 400)
    y = 2.0 * x + (0.05 + x) * rng.standard_normal(400)
    pd.DataFrame({"x": x, "y": y, "kind": np.where(x > 0.5, "a", "b")}).to_csv(
        tmp_path / "t.csv", index=False
    )
    return tmp_path / "t.csv"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_noise_of_each_row_is_in_the_table(table: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.pbp", tmp_path / "p.csv"
    run("fit", "--fast", table, "--target", "y", "--drop", "kind", "--noise", "input", "-o", model)
    run("predict", model, table, "-o", out)
    predicted = pd.read_csv(out)
    assert np.corrcoef(predicted["aleatoric_std"], predicted["x"])[0, 1] > 0.9
    width = predicted["upper"] - predicted["lower"]
    assert width[predicted["x"] > 0.8].mean() > 2.0 * width[predicted["x"] < 0.2].mean()
    run("update", model, table)


def test_tails(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.pbp"
    run(
        "fit",
        "--fast",
        table,
        "--target",
        "y",
        "--drop",
        "kind",
        "--noise-tail",
        "heavy",
        "-o",
        model,
    )
    assert probprop.load(model).estimator.noise_tail == "heavy"


@pytest.mark.parametrize("option", [("--noise", "input"), ("--noise-tail", "heavy")])
def test_classes_have_no_noise(table: Path, tmp_path: Path, option: tuple[str, str]) -> None:
    arguments = [
        "fit",
        "--fast",
        str(table),
        "--target",
        "kind",
        *option,
        "-o",
        str(tmp_path / "m.pbp"),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "'kind' is a class: only numeric targets have noise" in " ".join(result.output.split())

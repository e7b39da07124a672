"""Files that commands must not lose: models updated at once, inputs named as outputs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import probprop
from cli_tables import call, write_homes
from probprop._atomic import updating

FIT = "fit --fast homes.csv --target price --drop id --n-epochs 1 -q"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_homes(folder)
    line = FIT.replace("homes.csv", f"{folder}/homes.csv")
    assert call(f"{line} --test-fraction 0 -o {folder}/homes.pbp") == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(line: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "probprop", *line.split()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# ---- Updates at the same time


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_no_update_of_four_at_once_is_lost(folder: Path) -> None:
    # All four wait for this process, so that they come as close together as they can.
    with updating("homes.pbp", lambda: None):
        processes = [start("update homes.pbp sold.csv") for _ in range(4)]
        for process in processes:
            assert process.stderr is not None
            assert "waiting for another process" in process.stderr.readline()
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    estimator = probprop.load("homes.pbp").estimator
    assert (estimator.n_iter_, estimator.n_samples_seen_) == (5, 500 + 4 * 50)
    assert sorted(os.listdir()) == ["homes.csv", "homes.pbp", "new.csv", "sold.csv"]


def test_a_model_that_was_replaced_in_the_meantime_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`fit` does not wait; an update that has begun must not undo it."""
    from probprop.table import TableModel

    learn = TableModel.update

    def fit_meanwhile(self: TableModel, frame: object) -> TableModel:
        assert call(f"{FIT} --hidden-layer-sizes 3 -o homes.pbp") == 0
        return learn(self, frame)  # type: ignore[arg-type]

    monkeypatch.setattr(TableModel, "update", fit_meanwhile)
    assert call("update homes.pbp sold.csv") == 1
    assert "was replaced by another process" in capfd.readouterr().err
    assert probprop.load("homes.pbp").estimator.hidden_layer_sizes == (3,)


# ---- Outputs that are inputs


@pytest.mark.parametrize("link", [None, os.link, os.symlink])
@pytest.mark.parametrize(
    ("command", "victim"),
    [
        ("fit --fast homes.csv --target price -o {}", "homes.csv"),
        ("fit --fast homes.csv --target price -o m.pbp --report {}", "homes.csv"),
        ("predict homes.pbp new.csv -o {}", "new.csv"),
        ("evaluate homes.pbp sold.csv --report {}", "sold.csv"),
        ("evaluate homes.pbp sold.csv --report {}", "homes.pbp"),
        ("update {} homes.pbp", "homes.pbp"),
    ],
)
def test_an_input_is_not_replaced(
    folder: Path, capfd: pytest.CaptureFixture[str], command: str, victim: str, link: object
) -> None:
    before, name = Path(victim).read_bytes(), victim
    if callable(link):
        name = f"link{Path(victim).suffix}"
        link(victim, name)
    assert call(command.format(name)) == 1
    err = capfd.readouterr().err
    assert f"{name} is the same file as" in err
    assert victim in err
    assert err.count("\n") == 1
    assert Path(victim).read_bytes() == before


def test_model_and_report_need_two_paths(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(f"{FIT} -o one --report ./one") == 1
    assert "-o one and --report ./one are the same file" in capfd.readouterr().err
    assert not Path("one").exists()


@pytest.mark.parametrize(
    "command",
    [
        "report homes.pbp sold.csv -o",
        "evaluate homes.pbp sold.csv --report",
        f"{FIT} -o m.pbp --report",
        "demo -o",
        "play -o",
    ],
)
def test_a_page_replaces_pages_only(
    command: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = Path("new.csv").read_bytes()
    assert call(f"{command} new.csv") == 1
    assert "new.csv exists and is not an HTML file" in capfd.readouterr().err
    assert Path("new.csv").read_bytes() == before


def test_a_report_replaces_an_older_one(folder: Path) -> None:
    Path("r.html").touch()  # an empty file is no loss
    for _ in range(2):
        assert call("report homes.pbp sold.csv --static -o r.html -q") == 0
    assert Path("r.html").read_text().lstrip().lower().startswith("<!doctype html")


def test_a_model_replaces_models_only(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = Path("new.csv").read_bytes()
    assert call(f"{FIT} -o new.csv") == 1
    assert "new.csv exists and is not a probprop model" in capfd.readouterr().err
    assert Path("new.csv").read_bytes() == before
    Path("empty.pbp").touch()
    Path("half.pbp").write_bytes(Path("homes.pbp").read_bytes()[:1000])
    for path in ("homes.pbp", "empty.pbp", "half.pbp"):
        assert call(f"{FIT} -o {path}") == 0
        assert probprop.load(path).targets == ["price"]

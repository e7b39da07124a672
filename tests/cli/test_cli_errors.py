"""Errors: one line that names the cause and the remedy, the exit code, no traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from cli_tables import call, fails, write_homes
from limits import Limits
from probprop import PBPRegressor
from probprop.cli import output
from probprop.cli.application import run

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_file: bytes) -> Path:
    """The current folder, with tables and a fitted model in it."""
    write_homes(tmp_path)
    (tmp_path / "homes.pbp").write_bytes(model_file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model")
    write_homes(path)
    arguments = [
        "fit",
        "--fast",
        str(path / "homes.csv"),
        "--target",
        "price",
        "--drop",
        "id",
        "-q",
    ]
    assert run([*arguments, "--n-epochs", "2", "-o", str(path / "homes.pbp")]) == 0
    return (path / "homes.pbp").read_bytes()


Captured = pytest.CaptureFixture[str]


# ---- Usage: 2


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ("fiit homes.csv", ["No such command 'fiit'", "'fit'", "`probprop --help`"]),
        ("fit", ["Missing argument 'DATA'", "`probprop fit --help`"]),
        ("fit --fast homes.csv -o m.pbp", ["Missing option '--target'"]),
        ("fit --fast homes.csv --target price", ["Missing option '-o'"]),
        ("fit --fast homes.csv --target price -o m.pbp --nope", ["No such option: --nope"]),
        (
            "fit --fast homes.csv --target price -o m.pbp --n-epochs 0",
            ["--n-epochs", "greater than or equal to 1"],
        ),
        (
            "fit --fast homes.csv --target price -o m.pbp --n-epochs ten",
            ["--n-epochs", "Invalid value"],
        ),
        (
            "fit --fast homes.csv --target price -o m.pbp --random-state -1",
            ["--random-state", "greater than or equal to 0"],
        ),
        (
            "fit --fast homes.csv --target price -o m.pbp --hidden-layer-sizes 50,x",
            ["--hidden-layer-sizes", "50,50"],
        ),
        (
            "fit --fast homes.csv --target price -o m.pbp --hidden-layer-sizes 0",
            ["--hidden-layer-sizes", "above 0"],
        ),
        ("fit --fast homes.csv --target price -o m.pbp --dtype int", ["--dtype", "'float32'"]),
        (
            "fit --fast homes.csv --target price -o m.pbp --test-fraction 1",
            ["--test-fraction", "less than or equal to 0.99"],
        ),
        ("fit --fast homes.csv --target price -o -", ["-o", "path of a file"]),
        ("predict homes.pbp new.csv --coverage 95", ["--coverage", "95", "between 0 and 1"]),
        ("predict homes.pbp new.csv -o out.doc", ["out.doc", ".csv, .tsv, .parquet, .pq, .xlsx"]),
        ("predict homes.pbp", ["Missing argument 'DATA'"]),
        ("info homes.pbp too many", ["unexpected extra argument"]),
    ],
)
def test_usage(folder: Path, capfd: Captured, arguments: str, fragments: list[str]) -> None:
    fails(capfd, 2, arguments, *fragments)
    assert not (folder / "m.pbp").exists()


# ---- Files: 1


def test_a_missing_file(folder: Path, capfd: Captured) -> None:
    fails(capfd, 1, "fit --fast no.csv --target price -o m.pbp", "no.csv", "no such file")
    fails(capfd, 1, "predict homes.pbp no.csv", "no.csv", "no such file")
    fails(capfd, 1, "predict no.pbp new.csv", "no.pbp: no such file", "check the path")
    fails(capfd, 1, "info no.pbp", "no.pbp: no such file")


def test_a_destination_that_cannot_be_is_refused_before_the_work(
    folder: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PBPRegressor, "fit", lambda *_: pytest.fail("it was fitted"))
    fit = "fit --fast homes.csv --target price"
    fails(capfd, 1, f"{fit} -o nowhere/m.pbp", "nowhere/m.pbp", "no folder", "make it first")
    fails(capfd, 1, f"{fit} -o {folder}", "is a directory")
    fails(capfd, 1, f"{fit} -o m.pbp --report nowhere/r.html", "--report nowhere/r.html")
    fails(capfd, 1, "predict homes.pbp new.csv -o nowhere/o.csv", "no folder")


@pytest.mark.parametrize("command", ["info", "predict", "evaluate", "update"])
def test_a_model_that_is_none(folder: Path, capfd: Captured, command: str) -> None:
    data = "" if command == "info" else " sold.csv"
    (folder / "image.png").write_bytes(PNG)
    fails(capfd, 1, f"{command} image.png{data}", "image.png is not a probprop model")
    (folder / "half.pbp").write_bytes((folder / "homes.pbp").read_bytes()[:5000])
    fails(capfd, 1, f"{command} half.pbp{data}", "half.pbp is truncated or damaged")


def test_a_model_of_a_newer_version(folder: Path, capfd: Captured) -> None:
    with zipfile.ZipFile("homes.pbp") as old, zipfile.ZipFile("newer.pbp", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "header.json":
                content = json.dumps(json.loads(content) | {"format_version": 99}).encode()
            new.writestr(zipfile.ZipInfo(name), content)
    for command in ("info newer.pbp", "predict newer.pbp new.csv", "update newer.pbp sold.csv"):
        fails(
            capfd, 1, command, "newer.pbp was written by a newer probprop", "pip install --upgrade"
        )


def test_a_model_saved_from_python_has_no_columns(folder: Path, capfd: Captured) -> None:
    rows = pd.read_csv("homes.csv")[["rooms", "area"]]
    PBPRegressor(3, n_epochs=1).fit(rows, rows["area"]).save("plain.pbp")
    fails(capfd, 1, "predict plain.pbp new.csv", "saved from Python", "`probprop fit`")


@contextmanager
def without_privileges() -> Iterator[None]:
    """Give up the rights of root for a while: root may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_no_permission(folder: Path, capfd: Captured) -> None:
    # Run once with all rights: other users may not be able to read the modules it imports.
    report = "evaluate homes.pbp sold.csv -q --json --report r.html"
    assert call(report) == call("predict homes.pbp sold.csv -q -o o.csv") == 0
    (folder / "r.html").unlink()
    (folder / "o.csv").unlink()
    before = (folder / "homes.pbp").read_bytes()
    for parent in folder.parents:  # pytest and its workers make them for their owner only
        if parent.name.startswith(("pytest", "popen-")):
            parent.chmod(0o755)
    (folder / "new.csv").chmod(0o000)
    folder.chmod(0o555)
    try:
        with without_privileges():
            fails(capfd, 1, "predict homes.pbp new.csv", "new.csv", "permission denied")
            fails(capfd, 1, "update homes.pbp sold.csv", "homes.pbp: permission denied; check the")
            fails(capfd, 1, "predict homes.pbp sold.csv -q -o o.csv", "o.csv: permission denied")
            fails(capfd, 1, report, "r.html: permission denied")
    finally:
        folder.chmod(0o755)
    assert (folder / "homes.pbp").read_bytes() == before
    assert not list(folder.glob(".probprop-*"))


# ---- Tables: 1


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        (b"", ["t.csv is empty"]),
        (b"city,rooms,area,new,fixed,price\n", ["t.csv", "comma", "header but no rows"]),
        (PNG, ["t.csv is not a table but a PNG image"]),
        (bytes(range(256)) * 4, ["t.csv is not"]),
        (b"city,price\nK\xc3\xb6ln,1\nK\xf6ln,2\n", ["t.csv is UTF-8 text at", "line 3"]),
        (b"city:rooms:price\nRome:1:2\n", ["t.csv", "no comma, semicolon or tab", "'price'"]),
        (b"city;rooms\nRome;1\nOslo;2\n", ["t.csv", "delimiter: semicolon", "'price'"]),
        (b"rooms,price\n1,2\n2,3,4\n", ["t.csv", "3 fields", "2"]),
        (b"rooms,price\n1,\n2,\n4,NA\n", ["t.csv", "no row with a value of 'price'"]),
        (b"day,price\n5/6/24,2\n6/6/24,3.5\n", ["'day' has dates", "write them as 2024-05-31"]),
    ],
)
def test_a_table_that_cannot_be_fitted(
    folder: Path, capfd: Captured, content: bytes, fragments: list[str]
) -> None:
    (folder / "t.csv").write_bytes(content)
    fails(capfd, 1, "fit --fast t.csv --target price --test-fraction 0 -o m.pbp", *fragments)
    assert not (folder / "m.pbp").exists()


def test_a_byte_order_mark_is_no_part_of_the_first_name(folder: Path) -> None:
    (folder / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (folder / "sold.csv").read_bytes())
    assert call("fit --fast bom.csv --target price --drop id --n-epochs 1 -o bom.pbp") == 0


def test_columns_that_are_not_there(folder: Path, capfd: Captured) -> None:
    fit = "fit --fast homes.csv -o m.pbp --target"
    fails(capfd, 1, f"{fit} prize", "homes.csv", "no column 'prize'", "'price'")
    fails(capfd, 1, f"{fit} price --drop ID", "no column 'ID'")
    fails(capfd, 1, f"{fit} price --features area,size", "no column 'size'")
    pd.read_csv("new.csv").drop(columns=["area", "city"]).to_csv("less.csv", index=False)
    fails(capfd, 1, "predict homes.pbp less.csv", "less.csv", "no columns 'city', 'area'")
    fails(capfd, 1, "evaluate homes.pbp new.csv", "new.csv", "no column 'price'")
    fails(capfd, 1, "update homes.pbp new.csv", "new.csv", "no column 'price'")


def test_text_among_numbers(folder: Path, capfd: Captured) -> None:
    frame = pd.read_csv("sold.csv", dtype=str)
    frame.loc[2, "area"] = "large"
    frame.to_csv("text.csv", index=False)
    for command in ("predict homes.pbp text.csv -q", "update homes.pbp text.csv"):
        fails(capfd, 1, command, "'area' must contain finite numbers", "'large' in row 3")


def test_missing_values_are_counted_over_the_whole_table(folder: Path, capfd: Captured) -> None:
    frame = pd.read_csv("homes.csv")
    frame.loc[::10, "area"] = float("nan")
    frame.loc[3, "city"] = None
    frame.to_csv("gaps.csv", index=False)
    fit = "fit --fast gaps.csv --target price --n-epochs 1 -o m.pbp --missing error --drop id"
    fails(capfd, 1, fit, "'city' (1 row), 'area' (50 rows)", "in 51 of 500 rows")
    assert call(f"{fit},area,city") == 0


def test_too_few_rows_to_hold_some_out(folder: Path, capfd: Captured) -> None:
    (folder / "one.csv").write_text("rooms,price\n1,2\n")
    fails(capfd, 1, "fit --fast one.csv --target price -o m.pbp", "1 row", "--test-fraction 0")


def test_a_name_the_predictions_need_is_taken(folder: Path, capfd: Captured) -> None:
    pd.read_csv("new.csv").assign(upper=1).to_csv("taken.csv", index=False)
    fails(capfd, 1, "predict homes.pbp taken.csv", "taken.csv", "'upper'", "rename")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_prediction_that_fails_midway_leaves_the_old_file(
    folder: Path, capfd: Captured, limits: Limits, suffix: str
) -> None:
    frame = pd.read_csv("new.csv", dtype=str)
    frame.loc[40, "area"] = "large"
    frame.to_csv("late.csv", index=False)
    limits.chunks_of(7)
    output = folder / f"out.{suffix}"
    fails(capfd, 1, f"predict homes.pbp late.csv -q -o {output.name}", "row 41")
    assert not output.exists()
    output.write_text("before")
    fails(capfd, 1, f"predict homes.pbp late.csv -q -o {output.name}", "row 41")
    assert output.read_text() == "before"
    assert not list(folder.glob(".probprop-*"))


# ---- Everything else


def test_a_bug_is_one_line_too_unless_debugged(
    folder: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: str) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(output, "load_table_model", broken)
    update = "update homes.pbp sold.csv"
    fails(capfd, 1, update, "unexpected KeyError: 'surprise'", "--debug")
    with pytest.raises(KeyError, match="surprise"):
        call(f"{update} --debug")


def test_ctrl_c_is_one_line(folder: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PBPRegressor, "fit", interrupted)
    fails(
        capfd,
        130,
        "fit --fast homes.csv --target price --drop id -o homes.pbp",
        "interrupted",
        "as it was",
    )


def test_errors_are_red_on_color_terminals(
    capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    assert call("info no.pbp") == 1
    assert capfd.readouterr().err.startswith("\x1b[1;31merror: no.pbp")
    monkeypatch.setenv("NO_COLOR", "1")
    assert call("info no.pbp") == 1
    assert "31m" not in capfd.readouterr().err


def test_the_process_has_the_exit_code_and_no_traceback() -> None:
    code = "from probprop.cli import main; main()"
    command = [sys.executable, "-c", code, "info", "no.pbp"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == "error: no.pbp: no such file or directory; check the path\n"


@pytest.mark.process
def test_ctrl_c_in_the_middle_of_a_fit(folder: Path) -> None:
    code = (
        "import os, signal\n"
        "from contextlib import contextmanager\n"
        "from probprop.cli import main\n"
        "from probprop.cli.console import Terminal\n"
        "@contextmanager\n"
        "def interrupt_third(*_, **__):\n"
        "    yield lambda epoch: epoch.n_iter == 3 and os.kill(os.getpid(), signal.SIGINT)\n"
        "Terminal.epochs = interrupt_third\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "main()\n"
    )
    arguments = [
        "fit",
        "--fast",
        "homes.csv",
        "--target",
        "price",
        "--drop",
        "id",
        "-o",
        "homes.pbp",
    ]
    before = (folder / "homes.pbp").read_bytes()
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True)
    assert result.returncode == 130
    assert re.fullmatch(rb"error: interrupted[^\n]*\n", result.stderr), result.stderr
    assert (folder / "homes.pbp").read_bytes() == before


def test_a_missing_extra_says_what_to_install() -> None:
    hide = (
        "import sys\n"
        "sys.modules['typer'] = None\n"
        "from probprop.cli import main\n"
        "sys.argv = ['probprop', 'demo']\n"
        "main()\n"
    )
    result = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True)
    assert result.returncode == 1
    assert re.fullmatch(r"error: .*'typer'.* `pip install 'probprop\[cli\]'`\n", result.stderr)

"""The help: what it says, what it loads, and the ways to call it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import typer

from probprop.cli.application import app, run

HEAVY = {"numpy", "scipy", "sklearn", "pandas", "matplotlib", "jinja2", "joblib", "pyarrow"}

COMMANDS = [
    *(["demo"], ["play"], ["fit"], ["predict"], ["evaluate"], ["report"], ["update"], ["info"]),
    ["active"],
    *(["compare"], ["reproduce"], ["data"], ["data", "list"], ["data", "fetch"], ["data", "path"]),
]


def names(command: object, path: tuple[str, ...] = ()) -> list[list[str]]:
    """Return the words of every command and group below one."""
    found = [[*path]] if path else []
    for name, child in getattr(command, "commands", {}).items():
        found += names(child, (*path, name))
    return found


def test_these_are_all_commands() -> None:
    assert sorted(names(typer.main.get_command(app))) == sorted(COMMANDS)


def test_help_loads_nothing_heavy() -> None:
    """Modules are what takes the time; the time itself depends on the machine."""
    code = (
        "import json, sys\n"
        "from probprop.cli.application import run\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    assert run([*command, '--help']) == 0\n"
        "    print(*sys.modules, file=sys.stderr)\n"
        "import numpy\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    commands = [[], *COMMANDS]
    result = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Usage: probprop") == len(commands)
    *after_help, after_numpy = [{*line.split()} for line in result.stderr.splitlines()]
    for command, loaded in zip(commands, after_help, strict=True):
        assert loaded & HEAVY == set(), command
    assert "numpy" in after_numpy  # else the test could not fail


def test_the_module_can_be_run() -> None:
    def output(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "probprop", *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.returncode, result.stdout

    code, text = output("--help")
    assert code == 0
    assert text.lstrip().startswith("Usage: probprop [OPTIONS]")
    assert output("--version")[1].startswith("probprop ")
    assert output("no-such-command")[0] == 2


def test_the_help_names_the_default_seed(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", "--help"]) == 0
    out = " ".join(capfd.readouterr().out.split())
    assert re.search(r"--random-state N [^-]*\[default: 0", out)


def test_no_summary_of_a_command_is_cut_off(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = capfd.readouterr().out.partition("Commands:")[2].splitlines()
    own = [line for line in listed if line.split() and line.split()[0] not in ("reproduce", "data")]
    assert len(own) == 10
    assert [line for line in own if line.endswith("...")] == []

"""Run Python code in a fresh interpreter, found and set up as this one."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent


def processor_seconds_of_children() -> float:
    """Return the processor time of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_command(folder: Path, *arguments: str) -> tuple[dict[str, float], str]:
    """Run ``probprop *arguments`` in a folder.

    Returns
    -------
    used : dict
        Its processor `seconds` and its `peak` memory in bytes.
    printed : str
    """
    made = [sys.executable, "-m", "benchmarks.command", str(folder.resolve()), "--quiet"]
    done = subprocess.run(
        [*made, *arguments], cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    *printed, used = done.stdout.splitlines(keepends=True)
    return json.loads(used), "".join(printed)


def run_fresh(*arguments: str) -> Any:
    """Run ``python *arguments`` at the root of the checkout; return the JSON it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)

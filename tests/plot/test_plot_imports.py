"""Matplotlib is an extra: without it a plot raises an error, and imports work."""

from __future__ import annotations

import subprocess
import sys


def test_a_missing_matplotlib_is_named_with_its_cure() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import probprop.plot"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        "probprop.plot needs matplotlib, which is missing: pip install 'probprop[cli]'"
        in (done.stderr.splitlines()[-1])
    )


def test_the_package_itself_does_not_import_matplotlib() -> None:
    code = "import sys, probprop, probprop.metrics; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

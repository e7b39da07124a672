"""The package as it is installed: version, imports, stub, the missing kernel."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from nanobind.stubgen import StubGen

import probprop
from probprop import _kernel

ROOT = Path(__file__).parents[1]


def test_version_is_that_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert probprop.__version__ == project["version"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_stub_of_the_kernel_is_current() -> None:
    generator = StubGen(_kernel)
    generator.put(_kernel)
    assert generator.get() == (ROOT / "src/probprop/_kernel.pyi").read_text(), "run `make stub`"


def test_a_missing_kernel_says_what_to_do() -> None:
    hide = (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'probprop._kernel':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "import probprop\n"
    )
    result = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: probprop is built without its compiled kernel: ")
    assert "pip install ." in last


def test_import_adds_only_itself_to_scikit_learn() -> None:
    code = (
        "import sys, sklearn.base, sklearn.utils.validation, scipy.special, scipy.optimize\n"
        "before = {m.partition('.')[0] for m in sys.modules}\n"
        "import probprop\n"
        "added = {m.partition('.')[0] for m in sys.modules} - before\n"
        "print(*sorted(added - sys.stdlib_module_names))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.split() == ["probprop"], result.stderr


def test_equations_cited_in_cpp_are_cited_in_the_reference() -> None:
    """A newcomer finds each equation in both languages."""

    def cited(folder: str, pattern: str) -> set[str]:
        text = "".join(p.read_text() for p in sorted((ROOT / folder).rglob(pattern)))
        return {n for group in re.findall(r"\((\d+)\)", text) for n in [group] if int(n) < 40}

    wanted = {"6", "7", "9", "10", "12", "13", "14", "15", "16", "17"}
    assert wanted <= cited("cpp", "*.hpp")
    assert wanted <= cited("src/probprop/reference", "*.py")

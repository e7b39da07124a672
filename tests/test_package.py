"""The package as it is installed: version, imports, stub, the missing kernel."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from nanobind.stubgen import StubGen

import probprop

ROOT = Path(__file__).parents[1]


def test_version_matches_pyproject() -> None:
    project, lab = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in (ROOT, ROOT / "lab")
    )
    assert probprop.__version__ == project["version"] == lab["version"]
    assert lab["dependencies"] == [f"probprop[cli]=={project['version']}"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    ("folder", "name"),
    [("src", "probprop._kernel"), ("lab/src", "probprop_lab.baselines._leapfrog")],
)
def test_the_stub_of_a_compiled_module_is_current(folder: str, name: str) -> None:
    module = import_module(name)
    generator = StubGen(module)
    generator.put(module)
    path = ROOT / folder / Path(*name.split(".")).with_suffix(".pyi")
    assert generator.get() == path.read_text(), "run `make generated`"


@pytest.mark.process
def test_the_wheels_hold_one_package_each(tmp_path: Path) -> None:
    """Built without the compiled modules: these take minutes, and have their own line in CMake."""
    pytest.importorskip("scikit_build_core", reason="needs the extra 'test'")
    code = (
        "import sys; from scikit_build_core.build import build_wheel\n"
        "build_wheel(sys.argv[1], {'wheel.cmake': 'false', 'wheel.py-api': 'py3',\n"
        "    'build-dir': sys.argv[1] + '/build'})"  # py3: no stable ABI without compiled modules
    )
    for folder, package in ((ROOT, "probprop"), (ROOT / "lab", "probprop_lab")):
        command = [sys.executable, "-c", code, str(tmp_path)]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        [wheel] = tmp_path.glob(f"{package}-*.whl")
        files = [Path(name) for name in ZipFile(wheel).namelist()]
        code_of = {path.parts[0] for path in files if ".dist-info" not in path.parts[0]}
        assert code_of == {package}
        assert not [path for path in files if path.suffix == ".so"]
        sources = (folder / "src" / package).rglob("*.py")
        assert {path for path in files if path.suffix == ".py"} == {
            path.relative_to(folder / "src") for path in sources
        }
        built = re.findall(r"DESTINATION (\w+)", (folder / "CMakeLists.txt").read_text())
        assert built == [package]
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "lab" / "LICENSE").read_bytes()


@pytest.mark.process
def test_the_source_distribution_is_small_and_has_no_results(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core", reason="needs the extra 'test'")
    code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    [path] = tmp_path.iterdir()
    assert path.stat().st_size < 2e6
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"LICENSE", "cpp/level.cpp", "src/probprop/web/kernel.wasm", "tests/golden.py"} <= {
        *names
    }
    assert not [name for name in names if name.startswith(("docs/results", "lab", "build"))]


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


HEAVY = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "jinja2", "joblib")


def output_of(code: str, *arguments: str) -> str:
    """Run code in a new process and return what it prints."""
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def loaded_by(code: str) -> set[str]:
    """Return which of the heavy packages a new process has imported after running code."""
    return {*output_of(f"{code}\nimport sys; print(*sys.modules)").split()} & {*HEAVY}


def test_import_loads_nothing_heavy() -> None:
    assert loaded_by("import probprop; dir(probprop); probprop.__version__") == set()
    assert loaded_by("import probprop.table.names") == set()
    assert "numpy" in loaded_by("import probprop; probprop.PBPRegressor")  # else it cannot fail


def test_every_public_name_is_there_and_listed() -> None:
    modules = {"active", "metrics", "plot", "report", "table"}
    assert {*probprop.__all__, *modules} <= {*dir(probprop)}
    for name in dir(probprop):
        assert hasattr(probprop, name), name
    assert {*probprop.table.__all__} <= {*dir(probprop.table)}
    for name in dir(probprop.table):
        assert hasattr(probprop.table, name), name


def test_star_imports_every_name_and_needs_no_extra() -> None:
    output_of(
        "import sys\n"
        "for name in ('pandas', 'matplotlib', 'jinja2', 'typer', 'rich'):\n"
        "    sys.modules[name] = None\n"
        "from probprop import *\n"
        "import probprop\n"
        "assert {*probprop.__all__} <= {*globals()}\n"
    )


@pytest.mark.parametrize("module", ["probprop", "probprop.table", "probprop.cli"])
def test_a_name_that_does_not_exist_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'PBPRegresor'"):
        _ = import_module(module).PBPRegresor
    with pytest.raises(ImportError, match="cannot import name 'PBPRegresor'"):
        exec(f"from {module} import PBPRegresor")


def test_a_pickled_model_is_read_in_a_new_process(tmp_path: Path) -> None:
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    model = probprop.PBPRegressor(3, n_epochs=2, random_state=0).fit(x, x[:, 0])
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(model))
    code = (
        "import pathlib, pickle, sys\n"
        "model = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(model.predict([[0.5]])[0].hex())"
    )
    assert output_of(code, str(path)) == model.predict([[0.5]])[0].hex()


def test_equations_cited_in_cpp_are_cited_in_the_reference() -> None:
    """A newcomer finds each equation in both languages."""

    def cited(folder: str, pattern: str) -> set[str]:
        text = "".join(p.read_text() for p in sorted((ROOT / folder).rglob(pattern)))
        return {n for group in re.findall(r"\((\d+)\)", text) for n in [group] if int(n) < 40}

    wanted = {"6", "7", "9", "10", "12", "13", "14", "15", "16", "17"}
    assert wanted <= cited("cpp", "*.hpp")
    assert wanted <= cited("src/probprop/reference", "*.py")

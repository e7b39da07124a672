"""What a release needs: the kernel on every platform, lower bounds that agree, one version."""

from __future__ import annotations

import importlib.util
import io
import re
import warnings
from pathlib import Path

import pytest
from tools import absolute_links, cross_compile, versions

ROOT = Path(__file__).parents[1]
OUTPUT = "any gamma 1.5 2.0\ngeneric quantiles 1.0\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", cross_compile.TARGETS)
def test_the_kernel_compiles_for_a_platform(tmp_path: Path, name: str) -> None:
    """Linking, running and the other instruction sets take minutes: the workflow does that."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the compiler is not installed: pip install 'probprop[cross]'")
    target = cross_compile.TARGETS[name]
    levels = ["generic", "v3"] if name == "win-amd64" else ["generic"]
    found = cross_compile.objects_of(target, tmp_path, levels)
    assert {path.stem for path in found} == {"dispatch", "gamma", *levels}
    assert all(path.stat().st_size > 0 for path in found)


def test_numbers_of_another_platform_are_compared() -> None:
    assert cross_compile.compare(OUTPUT + "v3 quantiles 1.0000000000001\n", OUTPUT) == "generic, v3"
    for wrong in ("v3 quantiles 1.000001\n", "v3 quantiles nan\n", "v3 gamma 1.5 -2.0\n"):
        with pytest.raises(SystemExit, match="expected"):
            cross_compile.compare(OUTPUT + wrong, OUTPUT)


@pytest.mark.filterwarnings("default")  # as for users, and not an error
@pytest.mark.parametrize("verbose", [False, True])
def test_what_other_packages_deprecate_is_not_for_users(verbose: bool) -> None:
    rich = pytest.importorskip("rich.console", reason="needs the extra 'cli'")
    from probprop.cli.console import Terminal

    stream = io.StringIO()
    terminal = Terminal(rich.Console(), rich.Console(file=stream, width=100), verbose=verbose)
    with terminal.warnings_as_notes():
        warnings.warn("old.function is deprecated", FutureWarning, stacklevel=2)
        warnings.warn("the disk is nearly full", UserWarning, stacklevel=2)
    assert "nearly full" in stream.getvalue()
    assert ("deprecated" in stream.getvalue()) == verbose


def test_lower_bounds_agree_with_the_conda_recipe() -> None:
    pins = dict(pin.split("==") for pin in versions.floors())
    assert {"numpy", "scikit-learn", "matplotlib", "dask", "jax", "nanobind"} <= set(pins)
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    listed = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", recipe))
    listed["matplotlib"] = listed.pop("matplotlib-base")
    assert listed.pop("python") == "3.11"
    listed.pop("cmake")
    assert listed == {name: pins[name] for name in listed}
    assert {"numpy", "scipy", "pandas", "typer", "nanobind"} <= set(listed)


@pytest.mark.parametrize("name", ["README.md", "lab/README.md"])
def test_links_of_a_published_readme_are_absolute(name: str) -> None:
    """The page of an index does not have the files of the repository."""
    folder = str(Path(name).parent)
    text = absolute_links.absolute((ROOT / name).read_text(), "https://host/repo", "v1", folder)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all(link.startswith("https://") for link in links)
    for kind, path in re.findall(r"https://host/repo/(raw|blob)/v1/([^#)]+)", text):
        assert (ROOT / path).is_file(), path
        assert (kind == "raw") == (Path(path).suffix == ".png"), path

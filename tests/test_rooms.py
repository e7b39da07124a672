"""The order of the rooms, read from the syntax tree: who may import what, and who may not touch.

Each check is a function of source texts, so that a made snippet shows that it can fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Lowest first: a module imports from its own level and from those before it.
ORDER = (
    (
        "probprop._types",
        "probprop._version",
        "probprop._kernel",
        "probprop._atomic",
        "probprop.io",
        "probprop.web",
    ),
    tuple(
        f"probprop.inference.{m}" for m in ("output_layer", "posterior", "standardize", "inputs")
    ),
    ("probprop.reference", "probprop.distributions"),
    tuple(f"probprop.inference.{m}" for m in ("likelihoods", "engine", "native", "task", "noise")),
    ("probprop.inference",),  # training, and what is added to it
    (
        "probprop.encoding",
        *(f"probprop.table.{m}" for m in ("names", "cells", "columns", "target", "encoding")),
    ),
    ("probprop.estimators",),
    ("probprop.table",),
    ("probprop.data", "probprop.facts"),
    ("probprop.files",),
    ("probprop.metrics", "probprop.active", "probprop.plot"),
    ("probprop.judged",),
    ("probprop.report",),
    ("probprop.cli", "probprop.__main__"),
    ("probprop.__init__",),  # the front door, which no room goes through
    ("probprop_lab",),
)
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
LIKELIHOODS = {"gaussian", "probit", "multinomial", "scale"}
LIKELIHOOD_ROOMS = ("probprop.inference.likelihoods", "probprop.reference.likelihoods")
# The public methods of a named tuple, which begin with an underscore so as not to be a field.
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}

Sources = Mapping[str, str]  # the text of each module by its dotted name


parsed = cache(ast.parse)


@pytest.fixture(scope="module")
def sources() -> Sources:
    found = {}
    for folder in (ROOT / "src", ROOT / "lab" / "src"):
        paths = [path for path in folder.rglob("*") if path.suffix in {".py", ".pyi"}]
        assert len(paths) > 50
        for path in sorted(paths):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            found[name] = path.read_text()
    return found


# ---- Imports


def statements(node: ast.AST, in_save: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """Walk to every import, however deep, but for those inside a method named `save`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom) and not in_save:
            yield child
        is_save = isinstance(node, ast.ClassDef) and getattr(child, "name", "") == "save"
        yield from statements(child, in_save or is_save)


def imports(module: str, sources: Sources) -> set[str]:
    """List the modules of these sources that a module imports."""
    found = set()
    for node in statements(parsed(sources[module])):
        if isinstance(node, ast.Import):
            candidates = [(alias.name,) for alias in node.names]
        else:
            package = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            candidates = [(f"{base}.{alias.name}", base) for alias in node.names]
        for names in candidates:
            known = (n for name in names for n in (name, f"{name}.__init__") if n in sources)
            found |= {next(known, module)} - {module}
    return found


def level(module: str) -> int:
    """Return the place of the innermost room in which a module lies."""
    parts = module.split(".")
    outwards = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    room = next((room for room in outwards if room in LEVELS), None)
    assert room is not None, f"{module} lies in no room: give it a place in ORDER"
    return LEVELS[room]


def upward_imports(sources: Sources) -> list[str]:
    return [
        f"{module} imports {other}"
        for module in sources
        for other in sorted(imports(module, sources))
        if level(other) > level(module)
    ]


def cycle(sources: Sources) -> list[str]:
    """Return one cycle of the import graph, or nothing."""
    try:
        TopologicalSorter({m: imports(m, sources) for m in sources}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # it lists importers last
    return []


def test_imports_go_one_way(sources: Sources) -> None:
    found = upward_imports(sources)
    assert not found, "\n".join(found)


def test_no_module_imports_itself_round_a_corner(sources: Sources) -> None:
    found = cycle(sources)
    assert not found, " -> ".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import probprop.files.format",
        "from probprop.files import format",
        "from ..files.format import Header",
        "from probprop import files",
        "def load():\n    from probprop.files.format import Header",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from probprop.files import load",
        "def save(path):\n    from probprop.files.format import Header",  # no method
    ],
)
def test_an_upward_import_is_found(text: str) -> None:
    made = {
        "probprop.table.model": text,
        "probprop.files.__init__": "from probprop.table import model",
        "probprop.files.format": "from probprop.table.model import TableModel",
    }
    (found,) = upward_imports(made)
    assert found.startswith("probprop.table.model imports probprop.files")
    assert "probprop.table.model" in cycle(made)


def test_the_laboratory_and_the_front_door_are_above_every_room() -> None:
    made = {
        "probprop.cli.showing": "from probprop_lab import datasets\nfrom probprop import load",
        "probprop.__init__": "",
        "probprop_lab.datasets": "import probprop.cli.showing",
    }
    assert len(upward_imports(made)) == 2


def test_a_method_save_may_import_upwards() -> None:
    lazy = "class M:\n    def save(self):\n        from probprop.files.format import Header"
    made = {
        "probprop.table.model": lazy,
        "probprop.files.format": "import probprop.table.model",
    }
    assert upward_imports(made) == cycle(made) == []


def test_a_module_without_a_room_is_found() -> None:
    with pytest.raises(AssertionError, match=r"probprop\.drawer lies in no room"):
        upward_imports({"probprop.drawer": "import probprop._atomic", "probprop._atomic": ""})


# ---- Private names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def own_names(tree: ast.AST) -> set[str]:
    """List the names that a file defines, at any depth."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and is_own_object(node.value):
            names |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
    return names


def is_own_object(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Name) and node.id in {"self", "cls", "super"}


def private_accesses(module: str, sources: Sources) -> list[str]:
    """List the uses of private names that another module, or another package, defines."""
    tree = parsed(sources[module])
    own = own_names(tree) | NAMED_TUPLE
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own_object(node.value):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom | ast.Import):
            base = getattr(node, "module", None) or ""
            paths = [f"{base}.{alias.name}".strip(".") for alias in node.names]
            # A module of this repository may be internal to it: probprop._types.
            names = [part for path in paths if path not in sources for part in path.split(".")]
            names = [name for name in names if f"probprop.{name}" not in sources]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"getattr", "setattr"}:
            names = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)]
            names = [] if is_own_object(node.args[0]) else names
        else:
            continue
        found += [(node.lineno, name) for name in names if is_private(name) and name not in own]
    return [f"{module}, line {line}: {name}" for line, name in sorted(found)]


def test_no_module_touches_a_private_name_of_another(sources: Sources) -> None:
    found = [line for module in sources for line in private_accesses(module, sources)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "def f(model):\n    return model._state",
        "from probprop.files.format import _header",
        "from numpy._core import umath",
        "def f(model):\n    return getattr(model, '_state')",
        "def f(model):\n    model.network._state = 1",
    ],
)
def test_a_private_access_is_found(text: str) -> None:
    (found,) = private_accesses("probprop.plot", {"probprop.plot": text})
    assert found.startswith("probprop.plot, line ")


def test_own_private_names_are_left_alone() -> None:
    text = """
from probprop._types import Array
class Model:
    def _go(self, other):
        super()._go(other)
        return self._base, other._go(None), other._replace(a=1), other.__class__
"""
    made = {"probprop.plot": text, "probprop._types": ""}
    assert private_accesses("probprop.plot", made) == []


# ---- Likelihoods by name


def named_likelihoods(module: str, sources: Sources) -> list[str]:
    """List the comparisons with a likelihood's name outside of its own room."""
    if module.startswith(LIKELIHOOD_ROOMS):
        return []
    return [
        f"{module}, line {value.lineno}: {value.value}"
        for node in ast.walk(parsed(sources[module]))
        if isinstance(node, ast.Compare | ast.MatchValue)
        for value in ast.walk(node)
        if isinstance(value, ast.Constant) and value.value in LIKELIHOODS
    ]


def test_no_comparison_with_the_name_of_a_likelihood(sources: Sources) -> None:
    found = [line for module in sources for line in named_likelihoods(module, sources)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "x = likelihood == 'gaussian'",
        "x = 'probit' != likelihood",
        "x = likelihood in ('multinomial', 'other')",
        "match likelihood:\n    case 'probit':\n        pass",
    ],
)
def test_a_comparison_with_a_name_is_found(text: str) -> None:
    assert len(named_likelihoods("probprop.plot", {"probprop.plot": text})) == 1
    in_its_room = "probprop.inference.likelihoods"
    assert named_likelihoods(in_its_room, {in_its_room: text}) == []

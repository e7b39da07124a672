"""The codec on classes of its own: every type comes back, and nothing else is accepted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from cv_models import assert_equal
from probprop._types import Array, FloatArray
from probprop.io import (
    CHECKPOINT,
    MODEL,
    Declared,
    Foreign,
    Newer,
    above,
    begins_as,
    decode,
    encode,
    read_file,
    write_file,
)


class Row(NamedTuple):
    n: int
    value: float
    each: float | tuple[float, ...]
    later: int = 7


class Pair(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Leaf:
    weights: tuple[Array, ...]
    scale: FloatArray
    name: str


@dataclass(frozen=True)
class Other:
    kind: Literal["a", "b"]


@dataclass(frozen=True)
class Tree:
    count: int
    gain: float
    rows: list[Row]
    leaf: Leaf | None
    either: Leaf | Other
    pair: Pair
    ends: tuple[float, bool]
    table: Mapping[str, Sequence[int]]
    target: str | list[str]
    note: dict[str, str] = field(default_factory=dict)


def check_pair(pair: Pair) -> None:
    if pair.low > pair.high:
        raise ValueError("low is above high")


DECLARED = {
    Leaf: Declared({"weights": above(0.0)}, {"scale": "n"}),
    Other: Declared(),
    Pair: Declared(check=check_pair),
    Tree: Declared({"gain": lambda x: not math.isinf(x)}),
}
LEAF = Leaf((np.ones((2, 3), np.float32), np.full(2, 5.0)), np.arange(4.0), "</ü\ud800")
TREE = Tree(
    count=3,
    gain=math.nan,
    rows=[Row(1, 0.5, (1.0, 2.0)), Row(2, 1e-300, (3.0, 4.0))],
    leaf=LEAF,
    either=Other("b"),
    pair=Pair(0.0, 1.0),
    ends=(0.1 + 0.2, True),
    table={"x": [1, 2], "": []},
    target=["a", "b"],
)


@pytest.mark.parametrize(
    "tree",
    [
        TREE,
        replace(TREE, leaf=None, either=LEAF, target="a", note={"b": "c"}),
        replace(TREE, rows=[Row(1, 2.0, 3.0, 4)], count=2**53),
        replace(TREE, rows=[]),
    ],
)
def test_every_type_comes_back(tree: Tree, tmp_path: Path) -> None:
    write_file(tmp_path / "f", MODEL, *encode(Tree, tree, DECLARED))
    node, arrays, _ = read_file(tmp_path / "f", MODEL)
    assert_equal(decode(Tree, node, arrays, DECLARED), tree)


def test_what_is_added_later_gets_its_default() -> None:
    node, arrays = encode(Tree, TREE, DECLARED)
    del node["note"], node["rows"]["columns"][-1]
    arrays["rows"] = arrays["rows"][:, :-1]
    assert_equal(decode(Tree, node, arrays, DECLARED), TREE)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("count", True, "count is missing or not of type int"),
        ("count", -1, "count is -1, which is out of range"),
        ("count", 2**53 + 1, "out of range"),
        ("gain", "inf", "gain is inf, which is out of range"),
        ("gain", 1, "gain is missing or not of type float"),
        ("leaf", {}, "leaf/name is missing"),
        ("leaf/name", 3, "leaf/name is missing or not of type str"),
        ("leaf/scale", "leaf/weights/1", "the array leaf/scale is missing"),
        ("either/kind", "c", "either/kind is missing or not one of 'a', 'b'"),
        ("either/class", "Tree", "either is missing or not of a type that it can have"),
        ("pair/low", 2.0, "low is above high"),
        ("pair/high", "nan", "pair/high is nan"),
        ("ends", [1.0], "expected 2 items, got 1"),
        ("table/x", [1, "2"], "table/x/1 is missing or not of type int"),
        ("target", 3, "target is missing or not of type str"),
        ("surplus", 3, "surplus is unexpected"),
    ],
)
def test_other_values_are_refused(place: str, value: Any, reason: str) -> None:
    node, arrays = encode(Tree, TREE, DECLARED)
    *path, last = place.split("/")
    target: Any = node
    for key in path:
        target = target[key]
    target[last] = value
    with pytest.raises(ValueError, match=reason):
        decode(Tree, node, arrays, DECLARED)


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("leaf/weights/0", np.zeros((2, 3)), "leaf/weights/0 has values that are out of range"),
        ("leaf/scale", np.zeros(4, np.float32), "leaf/scale must be of dtype float64"),
        ("leaf/scale", np.zeros((2, 2)), "the shape of leaf/scale does not fit"),
        ("leaf/scale", np.full(4, np.nan), "leaf/scale has values that are out of range"),
        ("rows", np.full((2, 5), 0.5), "rows/n has values that are not whole"),
        ("rows", np.ones((2, 4)), "rows does not have 5 columns"),
        ("surplus", np.zeros(1), "the array surplus belongs to no part"),
    ],
)
def test_other_arrays_are_refused(name: str, array: Any, reason: str) -> None:
    node, arrays = encode(Tree, TREE, DECLARED)
    with pytest.raises(ValueError, match=reason):
        decode(Tree, node, arrays | {name: array}, DECLARED)


def test_classes_that_are_not_known_are_newer() -> None:
    node, arrays = encode(Tree, TREE, DECLARED)
    node["either"]["class"] = "Later"
    with pytest.raises(Newer, match="this one has no Later"):
        decode(Tree, node, arrays, DECLARED)


def test_a_file_of_another_form_is_foreign(tmp_path: Path) -> None:
    write_file(tmp_path / "f", CHECKPOINT, {}, {})
    assert begins_as(tmp_path / "f", CHECKPOINT)
    assert not begins_as(tmp_path / "f", MODEL)
    with pytest.raises(Foreign, match="does not say that it is one"):
        read_file(tmp_path / "f", MODEL)

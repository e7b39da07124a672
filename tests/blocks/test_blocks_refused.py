"""Blocks and limits that are refused, in words that name the block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from block_rows import Blocks, cut, made, network, same
from probprop import fit
from probprop._types import Array
from probprop.data.scratch import (
    LEAST,
    RESERVED,
    Shape,
    bytes_of,
    check_parts_fit,
    scratch,
    shape_of,
)


def generator() -> Iterator[tuple[Array, Array]]:
    yield made()


def with_entry(value: float) -> Blocks:
    X, y = made()
    X[250, 1] = value
    return cut(X, y, [200])


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: generator(), TypeError, "is a generator, which can be gone through only once"),
    (lambda: 3, TypeError, "source must be a tuple of arrays"),
    (lambda: [], ValueError, "there are no blocks"),
    (lambda: [made()[0]], TypeError, "block 0: each block must be a tuple of arrays"),
    (lambda: [made(), (np.zeros((0, 3)), np.zeros(0))], ValueError, "block 1: .*0 sample"),
    (lambda: [made(), (np.zeros((4, 2)), np.zeros(4))], ValueError, "block 1: the number of feat"),
    (lambda: [made(), (np.zeros((4, 3)), np.zeros(5))], ValueError, "block 1: .*inconsistent"),
    (lambda: with_entry(np.nan), ValueError, "block 1: Input X contains NaN"),
    (lambda: with_entry(np.inf), ValueError, "block 1: Input X contains infinity"),
    (lambda: [made(), (made()[0], np.ones((400, 2)))], ValueError, "block 1: the columns of y"),
]


@pytest.mark.parametrize(("make", "kind", "words"), REFUSED)
def test_bad_blocks_are_refused_by_number(
    make: Callable[[], Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        fit(network(), make())


@pytest.mark.usefixtures("on_disk")
def test_blocks_that_change_are_refused() -> None:
    passes = 0

    def changing() -> Iterator[tuple[Array, Array]]:
        nonlocal passes
        passes += 1
        yield made()
        yield made(100 + passes)

    with pytest.raises(ValueError, match=r"block 1 had 101 rows in the first pass, .* 102 in a"):
        fit(network(), changing)


@pytest.mark.usefixtures("on_disk")
def test_a_column_without_any_value_is_refused() -> None:
    X, y = made()
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"no value at all in the column\(s\) \[1\]"):
        fit(network(missing="marginalize"), [(X, y)])


def test_a_column_may_have_its_first_value_in_a_later_block() -> None:
    X, y = made()
    X[:200, 1] = np.nan
    model = fit(network(missing="marginalize"), cut(X, y, [200]))
    own = network(missing="marginalize").fit(X, y)
    assert same(model.posterior_, own.posterior_)


def test_estimators_and_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        TypeError, match="must be a PBPRegressor, a PBPClassifier, a PBPRegressorCV"
    ):
        fit("network", [made()])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="target is for tables"):
        fit(network(), [made()], target="y")
    with pytest.raises(TypeError, match="target is missing"):
        fit(network(), "rows.parquet")
    with pytest.raises(ValueError, match="n_epochs"):
        fit(network(n_epochs=0), [made()])


@pytest.mark.parametrize(
    ("limit", "n_bytes"),
    [("2GB", 2e9), ("2 gb", 2e9), ("1.5G", 1.5e9), ("4GiB", 2**32), ("900000K", 9e8), (1e9, 1e9)],
)
def test_limits_are_read_as_people_write_them(limit: Any, n_bytes: float) -> None:
    assert bytes_of(limit) == n_bytes


@pytest.mark.parametrize("limit", ["much", "2 apples", "100MB", "-3GB", 12, float("nan")])
def test_limits_that_make_no_sense_are_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match="the memory limit must be"):
        bytes_of(limit)


def test_the_usual_limit_is_half_of_the_machine() -> None:
    assert LEAST <= bytes_of(None) < 2**50


def test_a_full_disk_is_reported_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(Path.cwd()))
    with (
        pytest.raises(OSError, match=r"take .* of disk in .*: set TMPDIR"),
        scratch(Shape(2**50, 100, 4), 0, 0),
    ):
        pass


def test_a_limit_that_one_part_of_an_epoch_would_break_is_refused() -> None:
    budget = LEAST - RESERVED
    check_parts_fit(shape_of(10**8, 20), budget)  # 16 GB, in partitions of 4 MB
    with pytest.raises(ValueError, match=r"too small for 10,000,000,000 rows.*at least 6.75 GB"):
        check_parts_fit(shape_of(10**10, 20), budget)
    check_parts_fit(shape_of(10**10, 20), bytes_of("6.8GB") - RESERVED)

"""Damaged Parquet files: one sentence of ours, whatever the library raises.

What is done to a file follows from the number of the mutation alone.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest
from numpy.random import RandomState

from awkward_tables import flats
from probprop import PBPRegressor
from probprop.data.fitting import columnwise, source_of
from probprop.table import TableError, iter_table, read_table
from probprop.table.read import memory_needed, plan_chunks

WORDS = "is damaged or is not a Parquet file"


def written(path: Path, n: int = 60) -> bytes:
    frame = flats(n).assign(sold=lambda f: pd.to_datetime(f["sold"]))
    frame.set_index("id").to_parquet(path, row_group_size=25)
    return path.read_bytes()


def mutated(content: bytes, number: int) -> bytes:
    """Change bytes, mostly in the metadata at the end; the first four bytes stay."""
    rng = RandomState(number)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    start = footer if rng.uniform() < 0.8 else 4
    at, n = rng.randint(start, len(content)), int(rng.choice([1, 1, 3, 20]))
    other = rng.bytes(n) if rng.uniform() < 0.5 else bytes([content[at] ^ 1 << rng.randint(8)] * n)
    return [
        content[:at] + other + content[at + n :],
        content[:at] + other + content[at + n :],
        content[:at] + content[at + n :],
        content[:at],
    ][rng.randint(4)]


def read_in_every_way(path: Path) -> int:
    """Read a file whole, in chunks and piece by piece; return how often it was refused."""
    n_refused = 0
    some = ["town", "area", "price"]
    for read in (
        lambda: read_table(path),
        lambda: read_table(path, columns=some),
        lambda: list(iter_table(path, chunk_rows=20)),
        lambda: list(iter_table(path, chunk_rows=20, columns=some)),
        lambda: [
            piece.rows.read()
            for piece in source_of(PBPRegressor(), path, columnwise("price")).tasks(1)
        ],
    ):
        try:
            read()
        except TableError as error:
            words = str(error)
        else:
            continue
        n_refused += 1
        assert WORDS in words or "has no " in words, words
    return n_refused


def check(numbers: range, folder: Path) -> int:
    path, n_refused = folder / "flats.parquet", 0
    content = written(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            path.write_bytes(mutated(content, number))
            try:
                n_refused += read_in_every_way(path)
                plan_chunks(str(path))
                memory_needed([str(path)])
            except Exception as error:
                raise AssertionError(f"mutation {number}: {error!r}") from error
    return n_refused


def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    assert check(range(200), tmp_path) > 300


@pytest.mark.slow
def test_many_damaged_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    check(range(200, 2000), tmp_path)

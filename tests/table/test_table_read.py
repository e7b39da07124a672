"""Reading tables: what is detected, what streams, and what is said about files that are none."""

from __future__ import annotations

import io
import os
import sys
import threading
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from probprop.table import TableError, iter_table, read_table
from probprop.table.read import START, frames_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
FRAME = pd.DataFrame(
    {
        "n": [1, 2, 3],
        "x": [0.5, 0.1 + 0.2, 1e-300],
        "t": ["a", "b", "ü,;\t"],
        "b": [True, False, True],
    }
)


def write(folder: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def refused(path: Any, *parts: str, chunk_rows: int = 2) -> str:
    """Whole or in chunks, the message is one line that names the file and says the rest."""
    messages = []
    for read in (read_table, lambda path: list(iter_table(path, chunk_rows=chunk_rows))):
        with pytest.raises(TableError) as caught:
            read(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert messages[0].startswith(str(path))
    assert "\n" not in messages[0]
    for part in parts:
        assert part in messages[0], messages[0]
    return messages[0]


# ---- What is read


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data"])
def test_delimiters_are_detected_whatever_the_name(
    tmp_path: Path, delimiter: str, name: str
) -> None:
    path = tmp_path / name
    FRAME.to_csv(path, sep=delimiter, index=False)
    frame = read_table(path)
    pd.testing.assert_frame_equal(frame, FRAME, check_exact=True)
    words = {",": "comma", ";": "semicolon", "\t": "tab"}
    assert frame.attrs["source"] == f"{path} (delimiter: {words[delimiter]})"


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("Weight, kg;Height, cm\n1,5;2,5\n3,5;4\n", ["Weight, kg", "Height, cm"]),
        ('a,b\n1,"x;y"\n2,"x;y;z"\n', ["a", "b"]),
        ('"a;1","b;2"\n1,2\n', ["a;1", "b;2"]),
        ("a, b ,c\n1, 2, 3\n", ["a", "b", "c"]),
        ("a,b,\n1,2,\n3,4,\n", ["a", "b"]),
        ("a,b\n1,2,\n3,4,\n", ["a", "b"]),
        (",b\n0,2\n", ["Unnamed: 0", "b"]),
        ("\n\na,b\n1,2\n", ["a", "b"]),
        ('"a\nb",c\n1,2\n', ["a\nb", "c"]),
        ("a,b\r1,2\r3,4\r", ["a", "b"]),
        ("a,b\r\n1,2\r\n", ["a", "b"]),
        ("a\n1\n", ["a"]),
        ("a,b\n1,2", ["a", "b"]),
    ],
)
def test_headers(tmp_path: Path, content: str, names: list[str]) -> None:
    path = write(tmp_path, content)
    assert list(read_table(path)) == names
    assert list(next(iter_table(path))) == names


def test_quotes_and_spaces_after_delimiters(tmp_path: Path) -> None:
    path = write(tmp_path, 'a, b, c\n1, "x, ""y""\nz", 3\n')
    assert read_table(path).to_numpy().tolist() == [[1, 'x, "y"\nz', 3]]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    for header in (b"a,b", b'"a",b'):
        path = write(tmp_path, b"\xef\xbb\xbf" + header + b"\n1,2\n")
        assert list(read_table(path)) == ["a", "b"]
        assert list(next(iter_table(path))) == ["a", "b"]


def test_marks_of_missing_cells(tmp_path: Path) -> None:
    path = write(tmp_path, "x,t,u\n1,None,NA\nn/a,red,NA\n,,NA\n2.5,-,NA\n")
    frame = read_table(path)
    np.testing.assert_array_equal(frame["x"], [1.0, np.nan, np.nan, 2.5])
    assert frame["t"].tolist()[:2] == ["None", "red"]  # none may be a category
    assert frame["t"].isna().tolist() == [False, False, True, True]
    assert frame["u"].isna().all()
    kept = read_table(path, na=["2.5", "red"])
    assert kept["x"].tolist()[:2] == ["1", "n/a"]
    assert kept["x"].isna().tolist() == [False, False, True, True]
    assert kept["t"].isna().tolist() == [False, True, True, False]
    assert kept["u"].tolist() == ["NA"] * 4


def test_true_and_false_may_be_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "b,c\ntrue,yes\nNA,true\nFalse,false\n,true\n")
    for frame in (read_table(path), pd.concat(frames_of(path, 2))):
        assert frame["b"].tolist()[::2] == [True, False]
        assert frame["b"].isna().tolist() == [False, True, False, True]
        assert str(frame["c"].iloc[0]) == "yes"


def test_columns_are_selected_in_the_requested_order(tmp_path: Path) -> None:
    csv, parquet = tmp_path / "data.csv", tmp_path / "data.parquet"
    FRAME.to_csv(csv, index=False)
    FRAME.to_parquet(parquet)
    for path in (csv, parquet):
        assert list(read_table(path, columns=["x", "n"])) == ["x", "n"]
        assert list(next(iter_table(path, columns=["x", "n"]))) == ["x", "n"]
        with pytest.raises(
            TableError, match=r"has no columns 'y', 'z': it has 'n', 'x', 't', 'b'\."
        ):
            read_table(path, columns=["y", "x", "z"])


# ---- Parquet


@pytest.mark.parametrize("name", ["data.parquet", "data.pq", "data.csv", "data"])
def test_parquet_by_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    FRAME.to_parquet(path)
    pd.testing.assert_frame_equal(read_table(path), FRAME)
    chunks = list(iter_table(path, chunk_rows=2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    pd.testing.assert_frame_equal(pd.concat(chunks), FRAME)


def test_a_stored_index_is_a_column_where_it_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    for index, names in ((pd.Index([7, 3, 9], name="id"), ["id", "n"]), ([7, 3, 9], ["n"])):
        FRAME[["n"]].set_axis(index).to_parquet(path)
        for frame in (read_table(path), next(iter_table(path))):
            assert list(frame) == names
            assert list(frame.index) == [0, 1, 2]


def test_damaged_and_misnamed_parquet(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    FRAME.to_parquet(path)
    content = path.read_bytes()
    for damaged in (content[:-20], content[:4], content[:4] + b"\xff" * 99 + content[103:]):
        refused(write(tmp_path, damaged, "bad.parquet"), "is damaged or is not a Parquet file")
    refused(write(tmp_path, "a,b\n1,2\n", "text.parquet"), "is not a Parquet file")
    FRAME[:0].to_parquet(path)
    refused(path, "has a header but no rows")


# ---- Chunks


def test_chunks_continue_the_index_and_keep_every_cell_as_it_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, "id,x,c\n007,1.10,1\n008,2,2\n009,NA,3b\n")
    chunks = list(iter_table(path, chunk_rows=2))
    assert [chunk.index.tolist() for chunk in chunks] == [[0, 1], [2]]
    assert pd.concat(chunks).to_numpy().tolist() == [
        ["007", "1.10", "1"],
        ["008", "2", "2"],
        ["009", "NA", "3b"],
    ]


def test_types_match_the_model_in_every_chunk(tmp_path: Path) -> None:
    path = write(tmp_path, "x,c,e\n1,1,1\n2,2,2\n2.5,3b,z\n3,4,5\n")
    kinds = {"x": "number", "c": "text"}
    chunks = list(iter_table(path, chunk_rows=2, kinds=kinds))
    assert [chunk["x"].dtype for chunk in chunks] == [np.float64] * 2
    assert [chunk["c"].tolist() for chunk in chunks] == [["1", "2"], ["3b", "4"]]
    assert [chunk["e"].tolist() for chunk in chunks] == [["1", "2"], ["z", "5"]]
    whole = read_table(path, kinds=kinds)
    pd.testing.assert_frame_equal(whole, pd.concat(chunks))


def test_chunks_leave_the_warning_filters_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n" + "1,2\n" * 5)
    before = list(warnings.filters)
    chunks = iter_table(path, chunk_rows=2)
    next(chunks)
    assert list(warnings.filters) == before
    chunks.close()


def peak_of_iterating(path: Path, n_rows: int) -> int:
    """Peak bytes that Python and NumPy allocate while a file of `n_rows` is read."""
    frame = pd.DataFrame({f"x{i}": np.arange(n_rows) / 7 for i in range(4)})
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, row_group_size=5_000)
    kinds = dict.fromkeys(frame, "number")
    next(iter_table(path, kinds=kinds, chunk_rows=10))  # imports and caches
    tracemalloc.start()
    n_read = sum(len(chunk) for chunk in iter_table(path, kinds=kinds, chunk_rows=5_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_read == n_rows
    return peak


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_tempering_does_not_grow_with_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    growth = peak_of_iterating(path, 120_000) - peak_of_iterating(path, 40_000)
    assert growth < 0.2 * 80_000 * 4 * 8  # a part of the data that was added


# ---- Standard input and pipes


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    for content in (FRAME.to_csv(index=False, sep=";").encode(), FRAME.to_parquet(None)):
        path.write_bytes(content)
        standard_input(monkeypatch, content)
        pd.testing.assert_frame_equal(read_table("-"), read_table(path))
        standard_input(monkeypatch, content)
        pd.testing.assert_frame_equal(next(iter_table("-")), next(iter_table(path)))


def test_standard_input_longer_than_the_look_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{i},{i / 7!r}\n" for i in range(80_000))
    assert len(rows) > 1 << 20
    standard_input(monkeypatch, b"i,x\n" + rows.encode())
    frame = read_table("-")
    np.testing.assert_array_equal(frame["x"], np.arange(80_000) / 7)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for content in (FRAME.to_csv(index=False).encode(), FRAME.to_parquet(None)):
        writer = threading.Thread(target=path.write_bytes, args=(content,))
        writer.start()
        frame = read_table(path)
        writer.join()
        pd.testing.assert_frame_equal(frame, FRAME)


# ---- What is not a table


def test_a_missing_file_a_directory_and_a_protected_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.csv", "cannot be read (no such file or directory)", "- for standard")
    refused(tmp_path, "cannot be read (is a directory)")
    path = write(tmp_path, "a,b\n1,2\n")
    path.chmod(0)
    if not os.access(path, os.R_OK):
        refused(path, "cannot be read (permission denied)")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\n \r\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b\n", "(delimiter: comma) has a header but no rows"),
        (b"a;b", "(delimiter: semicolon) has a header but no rows"),
        (PNG, "is not a table but a PNG image"),
        (b"PK\x03\x04rest", "is not a table but a zip file"),
        (b"\x1f\x8b\x08rest", "is compressed, and damaged or cut off"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "is UTF-16 text at first, but not in line 2"),
        (b"a,b\n\0\x01,\0\n", "is not a table but binary data"),
        (b"a,b\n1,\xc3\xa9\n3,caf\xe9\n", "is UTF-8 text at first, but not in line 3"),
        (b'{"a": 1}\n{"a": 2\n', "is not JSON lines (Expecting ',' delimiter"),
        (b'[{"a": 1}, 2]\n', "is not JSON lines ("),
        (b"a,b,a,b,c\n1,2,3,4,5\n", "has more than one column named 'a', 'b'"),
        (b'a,b\n1,"2\n3,4\n', "(delimiter: comma) has a quote in line 2 that is never closed"),
        (
            b"a,b\n1,2\n3,4\n5,6\n7,8,9\n",
            "(delimiter: comma) has 3 fields in line 5 where its header has 2",
        ),
        (
            b"a;b\n1;2;3\n4;5;6\n",
            "(delimiter: semicolon) has more fields in a row where its header",
        ),
        (b"a;b\n1;2;3\n4;5\n", "has more fields in a row where its header has 2"),
        (b"a" * (2 << 20), "has a header line of more than 1048576 characters"),
    ],
)
def test_files_that_are_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    message = refused(write(tmp_path, content), reason)
    assert ": " in message  # then what to do
    standard_input(monkeypatch, content)
    with pytest.raises(TableError, match="standard input "):
        read_table("-")


def test_a_letter_of_windows_1252_far_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"a,b\n" + (b"1,two" + b" " * 94 + b"\n") * 12_000 + b"3,caf\xe9\n"
    path = write(tmp_path, content)
    *_, last = iter_table(path, chunk_rows=3_000)
    standard_input(monkeypatch, content)
    for frame in (last, read_table(path), read_table("-")):
        assert frame["b"].iloc[-1] == "café"
        assert frame.attrs["noted"].endswith("(Windows-1252, delimiter: comma)")
    mixed = write(tmp_path, content.replace(b"two", "zwö".encode(), 1))
    refused(mixed, "is UTF-8 text at first, but not in line 12002", chunk_rows=3_000)


def test_a_character_cut_by_the_look_at_the_start_is_whole(tmp_path: Path) -> None:
    """One byte more at the start, and what was between two letters is within one."""
    content = "t,b\n" + f"{'ü' * 99},1\n" * 6_000
    for shift in range(2):
        text = "x" * shift + content
        path = write(tmp_path, text)
        assert len(text.encode()) > START
        assert read_table(path).iloc[:, 0].eq("ü" * 99).all()
    cuts = {("x" * shift + content).encode()[START] >> 6 == 0b10 for shift in range(2)}
    assert cuts == {False, True}


def test_a_delimiter_that_is_not_known_is_seen_in_the_message(tmp_path: Path) -> None:
    path = write(tmp_path, "a:b:y\n1:2:3\n")
    assert list(read_table(path)) == ["a:b:y"]
    with pytest.raises(TableError) as caught:
        read_table(path, columns=["y"])
    assert str(caught.value) == (
        f"{path} (no comma, semicolon or tab found) has no column 'y': it has 'a:b:y'."
    )


def test_a_row_that_is_too_short_has_missing_cells(tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, "a,b,c\n1,2,3\n4,5\n"))
    assert frame["c"].isna().tolist() == [False, True]


def test_a_cell_longer_than_the_csv_module_takes(tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, "a,b\n1," + "x" * 200_000 + "\n2,y\n"))
    assert frame["b"].str.len().tolist() == [200_000, 1]


def test_a_wide_table_is_read_as_its_columns_are(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(40)]
    cells = [[f"{(i * 7 + j) / 9!r}" for i in range(40)] for j in range(3)]
    kinds = {**dict.fromkeys(names, "number"), "c5": "text"}
    for mark in ("2.5", "NA", ""):  # one that is no number leaves the way for wide tables
        cells[1][7] = mark
        lines = [",".join(row) for row in [names, *cells]]
        frame = read_table(write(tmp_path, "\n".join(lines) + "\n"), kinds=kinds)
        assert list(frame) == names
        assert frame["c5"].tolist() == [row[5] for row in cells]
        for i in {*range(40)} - {5}:
            expected = [np.nan if row[i] in ("NA", "") else float(row[i]) for row in cells]
            np.testing.assert_array_equal(frame[f"c{i}"], expected, strict=True)

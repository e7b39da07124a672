"""The benchmark sets: what is read, what is refused and what is kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probprop.cli.application import run
from probprop_lab import datasets
from probprop_lab.datasets import DataError, parse, store
from probprop_lab.datasets.registry import SOURCES, Source

DATA = os.environ.get("PROBPROP_DATA")
Known = Callable[[str, Source], None]

# sha256 of X and of y as little-endian float64 in C order.
PARSED = """
boston_housing   58d9abef45a8e00c844d74ff0027c96d21a8a237d7ba7e4c0c30b11dcdafde10 a7a4a2bed7266f5e88acd2854ae97af5206bed564ab217810535d4cd14d76edb
concrete         c4f7f8fda5b3d88e68498336fd4c640b7c7215e13e58be2549e1d4251d005f26 6a51bf86903430946bc63cad7bd665ee89132a2bb413172e60b7afe14800f013
energy           394f967b71ba5a86a0eec3d218a9bdba1d035895c4d9f2223dfd8d64f93258fe 79a552da5262251cc9509e6c184f84db3cf9a62a1a41e993b0023f2ba9a1fe22
kin8nm           40fe658abf608fb41492e445d8e89d3a5f5daeee62e29ebdac02f329f1cf6dff a16dfbf651526e3e7a7543c7ba12c93e50ca2baecd284e62671fad99b9ea1fb4
naval_propulsion 7206828144245475bf4d7620d12cea8378b4212866a7c9e94ab49a02a0402b8b 325f8fec7abe20a5df9a4767ae05c26576320c1df2f9d24b176e7a2941ed6e47
power_plant      738126c94648654d3ac7514716695c19957f4bb8e8ecdff7b8a2c61ffb858bb7 b84c1488b08e6ec560bbabfc57013ca515259eaa0abc7dafec26b31a2c484424
protein          b191e61db326c95c38cbfdc8f963abd6a78018de5b3dcac60f2f9112859abd06 3c467e6bbcc4f151c7f8536c1296b4513035b83e7bdc3464e57b7dc4b0264d95
wine_red         9f40e7499030fb1aebbaed39a614fdac96d1c997b6abad2502f6386d1734ed9b 857552cf21124c681133662195ef3c2115025105d510d53a2929ca0c4907f097
yacht            cfee469bd75844078732e2197f89767cf7c3feb11848e40b7085ea648898da72 830b8fefb460a74aeeb6d46aa8869501ddcd9d97cd12d64b05461b95fc4793c2
"""  # noqa: E501

TABLE = np.random.RandomState(0).standard_normal((30, 4)).round(6)
RAW = "".join(" ".join(map(repr, row)) + "  \n" for row in TABLE.tolist()).encode()


def made_source(**changes: object) -> Source:
    """A source of a small file, at an address where nothing answers."""
    source = Source(
        file="made.data",
        address="http://127.0.0.1:9/made.zip",
        sha256=hashlib.sha256(RAW).hexdigest(),
        read=parse.read_text,
        shape=TABLE.shape,
        target_column=-1,
        feature_columns=slice(None, -1),
        feature_names=("a", "b", "c"),
        target="y",
        citation="Nobody (2000).",
        license="none stated",
        member="made.data",
    )
    return replace(source, **changes)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Known) -> Path:
    """An empty cache, no folder of data, and the set `made`."""
    monkeypatch.setenv("PROBPROP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROBPROP_DATA", raising=False)
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "*")
    known("made", made_source())
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that PROBPROP_DATA names, with the raw file of `made`."""
    path = tmp_path / "data"
    path.mkdir()
    (path / "made.data").write_bytes(RAW)
    monkeypatch.setenv("PROBPROP_DATA", str(path))
    return path


def assert_is_made(data: datasets.Dataset) -> None:
    np.testing.assert_array_equal(data.X, TABLE[:, :3])
    np.testing.assert_array_equal(data.y, TABLE[:, 3])
    assert data.X.flags.c_contiguous
    assert data.X.dtype == data.y.dtype == np.float64


# ---- What is read
@pytest.mark.parametrize("line", PARSED.split("\n")[1:-1], ids=lambda line: line.split()[0])
def test_the_arrays_match_the_literature(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *expected = line.split()
    if not DATA:
        pytest.skip("set PROBPROP_DATA to the folder of the raw benchmark files")
    monkeypatch.setenv("PROBPROP_DATA", DATA)
    for _ in range(2):  # parsed, then from the cache
        data = datasets.load(name)
        found = [hashlib.sha256(a.astype("<f8").tobytes()).hexdigest() for a in (data.X, data.y)]
        assert found == expected
        assert data.X.flags.c_contiguous
        assert data.X.shape == (SOURCES[name].shape[0], len(data.feature_names))


def test_every_set_says_what_it_is() -> None:
    assert len(datasets.NAMES) == len(set(datasets.NAMES)) == 10
    for name in datasets.NAMES:
        source = SOURCES[name]
        columns = range(source.shape[1])[source.feature_columns]
        assert len(set(source.feature_names)) == len(columns)
        assert range(source.shape[1])[source.target_column] not in columns
        assert source.address.startswith("https://")
        assert source.address.endswith(".zip") == (source.member is not None)
        assert source.citation.endswith(".")
        assert source.license
        assert source.target
    assert [n for n in datasets.NAMES if SOURCES[n].sha256 is None] == ["year_prediction_msd"]


def test_year_is_read_with_its_target_first(folder: Path, known: Known) -> None:
    random = np.random.RandomState(1)
    years, features = random.randint(1922, 2012, 50), random.normal(0, 50, (50, 90)).round(5)
    lines = [
        ",".join([str(year), *(f"{v:.5f}" for v in row)])
        for year, row in zip(years, features, strict=True)
    ]
    path = folder / "YearPredictionMSD.txt"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"YearPredictionMSD.txt.*\(50, 91\).*\(515345, 91\)"):
        datasets.load("year_prediction_msd")
    small = replace(SOURCES["year_prediction_msd"], shape=(50, 91), n_train=45)
    known("year_prediction_msd", small)
    data = datasets.load("year_prediction_msd")
    np.testing.assert_array_equal(data.y, years)
    np.testing.assert_array_equal(data.X, features)
    assert data.target == "year"
    path.write_text("\n".join([*lines[:-1], "1999,1,2"]) + "\n")
    with pytest.raises(DataError, match=r"YearPredictionMSD.txt is not used, .*columns"):
        datasets.load("year_prediction_msd")


def test_arff_is_read_below_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.arff"
    path.write_bytes(
        b"% 1,2\r\n@relation r\r\n@attribute a numeric\r\n@DATA\r\n% c\r\n1,2\r\n3,4\r\n"
    )
    np.testing.assert_array_equal(parse.read_arff(path), [[1, 2], [3, 4]])
    path.write_bytes(b"1,2\n")
    with pytest.raises(ValueError, match="no line @data"):
        parse.read_arff(path)


def write_workbook(path: Path, sheets: dict[str, list[list[float | str]]]) -> None:
    """Write a minimal xlsx file."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    with zipfile.ZipFile(path, "w") as archive:
        parts = f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        listed = links = ""
        for i, (name, rows) in enumerate(sheets.items(), 1):
            file = f"worksheets/s{i}.xml"
            parts += f'<Override PartName="/xl/{file}" ContentType="{kind}.worksheet+xml"/>'
            listed += f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>'
            links += f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="{file}"/>'
            cells = ""
            for j, row in enumerate(rows, 1):
                cells += f'<row r="{j}">'
                for letter, cell in zip("ABCDE", row, strict=False):
                    text = f'<c r="{letter}{j}" t="inlineStr"><is><t>{cell}</t></is></c>'
                    number = f'<c r="{letter}{j}"><v>{cell}</v></c>'
                    cells += text if isinstance(cell, str) else number
                cells += "</row>"
            sheet = f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
            archive.writestr(f"xl/{file}", sheet)
        types = f'<Types xmlns="{package}/content-types">{parts}</Types>'
        archive.writestr("[Content_Types].xml", types)
        head = f'<Relationships xmlns="{package}/relationships">'
        root = f'<Relationship Id="r1" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f"{head}{root}</Relationships>")
        archive.writestr("xl/_rels/workbook.xml.rels", f"{head}{links}</Relationships>")
        book = f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>'
        archive.writestr("xl/workbook.xml", book)


def test_a_sheet_is_taken_by_name_without_what_is_empty(tmp_path: Path) -> None:
    first: list[list[float | str]] = [["a", "b"], [1.0, 2.0]]
    second: list[list[float | str]] = [["a", "b", ""], [3.5, 4.0, ""], ["", "", ""], [5.0, 6.0, ""]]
    path = tmp_path / "book.xlsx"
    write_workbook(path, {"Sheet1": first, "Sheet5": second})
    np.testing.assert_array_equal(parse.read_sheet(path), [[1, 2]])
    np.testing.assert_array_equal(parse.read_sheet(path, sheet="Sheet5"), [[3.5, 4], [5, 6]])
    with pytest.raises(ValueError, match="Sheet9"):
        parse.read_sheet(path, sheet="Sheet9")
    path.write_bytes(b"no workbook")
    with pytest.raises(ValueError, match=r"."):
        parse.read_sheet(path)


def test_columns_are_rounded_half_up_where_the_source_says(folder: Path, known: Known) -> None:
    raw = b"0.25 0.35 2.675\n1 2 -1.005\n"
    (folder / "made.data").write_bytes(raw)
    source = made_source(
        sha256=None, shape=(2, 3), feature_names=("a", "b"), decimals=(1, 2), parsed_sha256=None
    )
    known("made", source)
    data = datasets.load("made")
    np.testing.assert_array_equal(data.X, [[0.3, 0.4], [1.0, 2.0]])
    np.testing.assert_array_equal(data.y, [2.68, -1.01])


# ---- What is found, refused and kept
def test_a_raw_file_is_found_in_the_folder_first_then_in_the_cache(
    folder: Path, cache: Path
) -> None:
    cache.mkdir()
    (cache / "made.data").write_bytes(RAW)
    assert datasets.where("made") == folder / "made.data"
    assert_is_made(datasets.load("made"))
    (folder / "made.data").unlink()
    assert datasets.where("made") == cache / "made.data"
    assert_is_made(datasets.load("made"))


@pytest.mark.parametrize("place", ["folder", "cache"])
def test_a_wrong_file_is_an_error_and_not_used(place: str, folder: Path, cache: Path) -> None:
    assert_is_made(datasets.load("made"))  # even where right arrays are cached
    path = (folder if place == "folder" else cache) / "made.data"
    (folder / "made.data").unlink()
    wrong = RAW.replace(b"\n", b"\r\n")
    path.write_bytes(wrong)
    with pytest.raises(DataError) as caught:
        datasets.load("made")
    digests = hashlib.sha256(wrong).hexdigest(), hashlib.sha256(RAW).hexdigest()
    for part in (str(path), *digests, str(folder), str(cache), "http://127.0.0.1:9/made.zip"):
        assert part in str(caught.value)
    assert path.read_bytes() == wrong


def test_what_is_parsed_to_other_numbers_is_an_error(folder: Path, known: Known) -> None:
    X, y = TABLE[:, :3], TABLE[:, 3]
    right = store.array_hashes(X, y)
    known("made", made_source(parsed_sha256=right))
    assert_is_made(datasets.load("made"))
    other = (right[0], right[0])
    known("made", made_source(parsed_sha256=other))
    with pytest.raises(DataError, match="other numbers"):
        datasets.load("made")


def refuse(path: Path) -> np.ndarray:
    raise AssertionError(f"{path} was parsed again")


def test_what_was_parsed_is_kept_and_enough(folder: Path, cache: Path, known: Known) -> None:
    datasets.load("made")
    known("made", made_source(read=refuse))
    assert_is_made(datasets.load("made"))
    (folder / "made.data").unlink()
    [kept] = cache.rglob("*.npz")
    assert datasets.where("made") == kept
    assert_is_made(datasets.load("made"))
    with np.load(kept, allow_pickle=False) as archive:
        assert sorted(archive) == ["X", "y"]


def damaged(good: bytes) -> dict[str, bytes]:
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    return {"flipped": flipped, "cut": good[:middle], "empty": b"", "foreign": b"\x80\x04]q\x00."}


@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "foreign"])
def test_a_damaged_cache_is_parsed_again(how: str, folder: Path, cache: Path) -> None:
    datasets.load("made")
    [kept] = cache.rglob("*.npz")
    good = kept.read_bytes()
    kept.write_bytes(damaged(good)[how])
    assert_is_made(datasets.load("made"))
    with np.load(kept) as archive:
        np.testing.assert_array_equal(archive["X"], TABLE[:, :3])


def test_a_cache_of_other_arrays_is_parsed_again(folder: Path, cache: Path) -> None:
    datasets.load("made")
    [kept] = cache.rglob("*.npz")
    for X in (TABLE[:5, :3], TABLE[:, :3].astype("f4"), np.full((30, 3), None)):
        np.savez(kept, X=X, y=TABLE[: len(X), 3])
        assert_is_made(datasets.load("made"))


class Mark:
    """Leaves a mark when its pickle is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_in_the_cache_is_not_run(folder: Path, cache: Path, tmp_path: Path) -> None:
    datasets.load("made")
    [kept] = cache.rglob("*.npz")
    np.savez(kept, X=np.array([Mark(tmp_path / "mark")], object), y=TABLE[:, 3])
    assert_is_made(datasets.load("made"))
    assert not (tmp_path / "mark").exists()


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path, cache: Path) -> None:
    cache.write_bytes(b"")  # a file where the folder would be
    assert_is_made(datasets.load("made"))
    assert cache.read_bytes() == b""


def test_names_and_folders_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"'boston': choose one of boston_housing, concrete"):
        datasets.load("boston")
    with pytest.raises(DataError, match="'boston'"):
        datasets.splits("boston")
    monkeypatch.setenv("PROBPROP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"PROBPROP_DATA is .*nowhere, which is not a folder"):
        datasets.load("yacht")


# ---- The extra `data`
def test_importing_it_needs_no_extra() -> None:
    code = "import probprop_lab.datasets, sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "probprop_lab.datasets.store" in result.stdout.split(), result.stderr
    assert not {"pooch", "requests", "python_calamine"} & set(result.stdout.split())


def test_a_missing_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("pooch", "python_calamine"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"pooch: pip install './lab\[data\]'"):
        datasets.load("made")
    with pytest.raises(ImportError, match=r"python-calamine: pip install './lab\[data\]'"):
        parse.read_sheet(tmp_path / "book.xlsx")
    monkeypatch.delenv("PROBPROP_CACHE")
    with pytest.raises(ImportError, match="pooch"):
        store.cache_folder()


# ---- The command
def test_data_list_says_what_there_is(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "yacht_hydrodynamics.data").touch()
    assert run(["data", "list"]) == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert [row[0] for row in rows[1:]] == list(datasets.NAMES)
    assert rows[9] == ["yacht", "308", "6", "20", "CC", "BY", "4.0", "PROBPROP_DATA"]
    assert rows[10][:4] == ["year_prediction_msd", "515,345", "90", "1"]
    assert rows[10][-2:] == ["not", "here"]


def test_data_fetch_continues_after_a_failure(
    folder: Path, known: Known, capfd: pytest.CaptureFixture[str]
) -> None:
    known("absent", made_source(file="absent.data"))
    assert run(["data", "fetch", "absent", "made"]) == 1
    out, err = capfd.readouterr()
    assert out == "made: 30 rows, 3 features; target y; license: none stated\n"
    assert "error: absent: absent.data: it could not be downloaded" in err
    assert "cite Nobody (2000)." in err
    assert run(["data", "fetch", "made", "-q"]) == 0
    assert capfd.readouterr() == (out, "")
    assert run(["data", "fetch", "nothing"]) == 2
    assert "no data set 'nothing'" in capfd.readouterr().err


def test_data_path_prints_the_folder_of_the_cache(
    folder: Path, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "path"]) == 0
    out, err = capfd.readouterr()
    assert out == f"{cache}\n"
    assert str(folder) in err


@pytest.mark.parametrize("command", ["", "list", "fetch", "path"])
def test_its_help_has_an_example(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["data", *command.split(), "--help"]) == 0
    assert f"  probprop data {command}" in capfd.readouterr().out

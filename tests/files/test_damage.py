"""Files that are not models, damaged, or hostile: one clear error each."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_files import LAYERED, X, Y, header_of, refused, rezip, unzip
from probprop.estimators.regressor import PBPRegressor
from probprop.files import ModelFileError, load
from probprop.files import format as persistence
from probprop.files.format import read_model, write_model

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100)


@pytest.mark.parametrize(
    "content",
    [PNG, b"a,b\n1,2\n", pickle.dumps([1, 2]), b"P", b"\0" * 1000, b"PK\x05\x06" + bytes(18)],
)
def test_another_kind_of_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    if content == b"P":  # may be the first byte of a model
        refused(tmp_path / "f", "its end is missing")
    else:
        refused(tmp_path / "f", "another kind of file", "is not a probprop model")


def test_another_zip(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", a=np.arange(3))
    refused(tmp_path / "f.npz", "a zip file without header.json", "is not a probprop model")
    np.savez_compressed(tmp_path / "f.npz", a=np.arange(3))
    refused(tmp_path / "f.npz", "a zip file without header.json", "is not a probprop model")
    rezip(tmp_path / "f", {"word/document.xml": b"<a/>", "x": b""}, zipfile.ZIP_DEFLATED)
    refused(tmp_path / "f", "a zip file without header.json", "is not a probprop model")


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"\xff\xfe{}", b"{} {}", b"[" * 100_000, b'{"a":' * 100_000, b"\x80\x04]."],
)
def test_a_header_that_is_not_json(path: Path, header: bytes) -> None:
    rezip(path, unzip(path) | {"header.json": header})
    refused(path, "header.json is not JSON", "is not a probprop model")


@pytest.mark.parametrize("header", [b"[]", b"1", b"null", b'"probprop"', b"{}", b'{"format": 1}'])
def test_a_header_of_something_else(path: Path, header: bytes) -> None:
    rezip(path, unzip(path) | {"header.json": header})
    refused(path, "header.json does not say", "is not a probprop model")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(str(tmp_path / "none"))


def test_a_newer_version(path: Path) -> None:
    with header_of(path) as header:
        header["class"] = "PBPOracle"
    refused(path, "this one has no PBPOracle", "was written by a newer probprop")
    with header_of(path) as header:
        header.clear()
        header |= {"format": "probprop", "format_version": 99}
    refused(path, "format 99, this one reads 2): upgrade", "was written by a newer probprop")


def test_an_earlier_version(path: Path) -> None:
    with header_of(path) as header:
        header["format_version"] = 1
    words = "format 1, this one reads 2): fit the model again"
    refused(path, words, "was written by an earlier probprop")


# ---- What is damaged


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    refused(tmp_path / "f", "it is empty")


def test_a_wrong_checksum(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 130] ^= 1
    path.write_bytes(content)
    refused(path, "Bad CRC-32")


REMOVE = object()
NAN, INF = float("nan"), float("inf")
FIELDS: dict[str, list[Any]] = {
    "format_version": [True, "1", 1.0, None, REMOVE],
    "class": [1, None, [], REMOVE],
    "arrays": [[], None, REMOVE],
    "parameters": [[], None, REMOVE],
    "feature_names_in_": [["a"], ["a", "b", 3], "abc", {}, REMOVE],
    "n_samples_seen_": ["60", 60.0, REMOVE],
    "y_mean": [NAN, INF, "0", 0, REMOVE],
    "y_scale": [0.0, -1.0, NAN, INF],
    "log_evidence_": [-INF, None],
    "alpha_noise": [1.0, 0.5, -1.0, NAN, INF],
    "alpha_prior": [1.0, 0.5, INF, REMOVE],
    "beta_noise": [0.0, -1.0, NAN],
    "beta_prior": [0.0, -1.0, INF],
}
STRUCTURE: dict[str, list[Any]] = {
    "layer_sizes": [3, REMOVE, [], [1], [3], [3, 4], [3, 4, 1, 1], [3, 5, 1], [4, 4, 1]],
    "weights_dtype": ["float32", "int64", "float16", 8, REMOVE],
    "n_iter_": [3, 0, -1, 10**30, 2.0, True, REMOVE],
}
STRUCTURE["layer_sizes"] += [[3, -4, 1], [3, 4, 1.5], [3, None, 1], ["3", "4", "1"], [[3], 4, 1]]
STRUCTURE["layer_sizes"] += [[1] * 100_000]
PARAMETERS: dict[str, list[Any]] = {
    "learning_rate": [0.1],
    "self": [1],
    "a__b": [1],
    "hidden_layer_sizes": [None, 0, 1.5, "4", [0], ["4"], [[4]], {}, {"tuple": 4}, {"a": 1}],
    "n_epochs": [0, 1.5, None, "2", [], {}],
    "prior_shape": [1.0, NAN, INF, None, 10**400],
    "noise_rate": [0, -1.0, "6", []],
    "n_shards": [0, -1, 1.5, "2"],
    "standardize": [None, 1, "yes"],
    "dtype": ["float16", None, ["float64"]],
    "engine": ["os.system", None, {}],
    "random_state": [-1, 2**32, 10**400, 1.5, "a", [1], {}],
    "verbose": [-1, None, "0"],
}
SHAPES = [[], [4], [5, 4], [4, 4, 1], [16], [-4, -4], [4.0, 4.0], ["4", "4"], [True, 16], 16]
SHAPES += [[10**12, 1], [10**4200, 10**4200]]
DTYPES = ["<i8", ">f8", "|O", "O", "<U2", "<c8", "f8", "float64", "", None, ["<f8"]]


def each(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in table.items() for value in values]


def put(mapping: dict[str, Any], name: str, value: Any) -> None:
    mapping[name] = value
    if value is REMOVE:
        del mapping[name]


@pytest.mark.parametrize(("name", "value"), each(FIELDS))
def test_impossible_fields(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header, name, value)
    refused(path, name)


@pytest.mark.parametrize(("name", "value"), each(STRUCTURE))
def test_impossible_structure(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header, name, value)
    refused(path, name if value is REMOVE else "")


@pytest.mark.parametrize(("name", "value"), each(PARAMETERS))
def test_impossible_parameters(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header["parameters"], name, value)
    refused(path, "")


@pytest.mark.parametrize(
    "described",
    [
        *({"dtype": "<f8", "shape": shape} for shape in SHAPES),
        *({"dtype": dtype, "shape": [4, 4]} for dtype in DTYPES),
        *({"dtype": "<f4", "shape": [4, 8]}, {"dtype": "<f8"}, {"shape": [4, 4]}, [], None),
    ],
)
def test_descriptions_that_lie(path: Path, described: Any) -> None:
    with header_of(path) as header:
        assert header["arrays"]["m_w_0"] == {"dtype": "<f8", "shape": [4, 4]}
        header["arrays"]["m_w_0"] = described
    refused(path, "")


@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0, -1.0])
@pytest.mark.parametrize("name", [*(f"{kind}_1" for kind in LAYERED), "x_mean", "x_scale"])
def test_values_that_are_not_finite_or_not_positive(path: Path, name: str, value: float) -> None:
    header, arrays = read_model(path)
    arrays[name].flat[-1] = value
    write_model(path, header, arrays)
    if np.isfinite(value) and name not in ("v_w_1", "x_scale"):
        load(path)
    else:
        refused(path, f"{name} has values that no fitted model has")


@pytest.mark.parametrize(
    "change",
    [
        {"m_w_1": np.zeros((1, 6))},
        {"m_w_1": np.zeros((2, 5))},
        {"m_w_1": np.zeros((1, 5), np.float32)},
        {"m_w_1": np.zeros((1, 5), np.int64)},
        {"m_w_1": np.zeros(5)},
        {"v_hat_nat_0": np.zeros((4, 4), np.float32)},
        {"x_mean": np.zeros(4)},
        {"x_mean": np.zeros((3, 1))},
        {"history_n_iter": np.zeros(2)},
        {"history_n_iter": np.zeros(3, np.int64)},
        {"history_mean_log_Z": np.zeros(2, np.int64)},
        {"m_w_1": None},
        {"x_scale": None},
        {"history_n_undone": None},
        {"m_w_2": np.zeros((1, 2))},
        {"another": np.zeros(1)},
    ],
)
def test_arrays_that_do_not_fit_together(path: Path, change: dict[str, Any]) -> None:
    header, arrays = read_model(path)
    arrays = {k: a for k, a in (arrays | change).items() if a is not None}
    write_model(path, header, arrays)
    refused(path, "do not fit together")


@pytest.mark.parametrize(
    "array", [np.zeros(1, "f2"), np.zeros(1, "c8"), np.zeros(1, "?"), np.zeros((1, 1, 1))]
)
def test_arrays_of_other_kinds(path: Path, array: Any) -> None:
    header, arrays = read_model(path)
    write_model(path, header, arrays | {"x_mean": array})
    refused(path, "x_mean has a dtype or shape that no model has")


def test_networks_of_other_kinds(path: Path) -> None:
    header, arrays = read_model(path)
    two_outputs = {f"{kind}_1": np.ones((2, 5)) for kind in LAYERED}
    write_model(path, header | {"layer_sizes": [3, 4, 2]}, arrays | two_outputs)
    refused(path, "alpha_noise in the header is missing or not of type list")
    for_each = {k: [2.0, 3.0] for k in ("alpha_noise", "beta_noise", "y_mean", "y_scale")}
    short = header | {"layer_sizes": [3, 4, 2]} | for_each | {"y_mean": [1.0]}
    write_model(path, short, arrays | two_outputs)
    refused(path, "y_mean in the header does not have a number per target")
    write_model(path, header | {"layer_sizes": [3, 4, 2]} | for_each, arrays | two_outputs)
    refused(path, "do not fit together")  # the noise of the epochs is of one target
    write_model(path, header | {"layer_sizes": [3, 4, 0]}, arrays)
    refused(path, "layer_sizes")
    write_model(path, header, arrays | {"missing_variance": np.full(3, 0.5)})
    refused(path, "missing_variance has values that no fitted model has")
    whole = {k: np.ones(a.shape, int) for k, a in arrays.items() if k[:3] in ("m_w", "v_w")}
    write_model(path, header | {"weights_dtype": "int64"}, arrays | whole)
    refused(path, "not those of a regression network")


def test_a_model_without_epochs(path: Path) -> None:
    header, arrays = read_model(path)
    for name in list(arrays):
        if name.startswith("history"):
            arrays[name] = arrays[name][:0]
    write_model(path, header | {"n_iter_": 0}, arrays)
    refused(path, "values that no fitted model has")


# ---- Hostile zips


def test_missing_and_extra_members(path: Path) -> None:
    members = unzip(path)
    rezip(path, {k: v for k, v in members.items() if k != "x_mean.npy"})
    refused(path, "the member x_mean.npy is missing or unexpected")
    for extra in ("extra.npy", "../../evil", "", "x_mean.npy/"):
        rezip(path, members | {extra: b"x"})
        refused(path, f"the member {extra} is missing or unexpected")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["header.json", "m_w_0.npy"])
def test_duplicate_members(path: Path, name: str) -> None:
    members = unzip(path)
    rezip(path, [*members.items(), (name, members[name])])
    refused(path, "two members have the same name")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members(path: Path, compression: int) -> None:
    rezip(path, unzip(path), compression)
    refused(path, "is compressed")


def test_an_encrypted_member(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(content)
    refused(path, "encrypted")


def test_a_pickle_in_the_place_of_an_array(path: Path) -> None:
    members = unzip(path)
    np.save(path.parent / "evil.npy", np.array([[1], "a"], object), allow_pickle=True)
    rezip(path, members | {"x_mean.npy": (path.parent / "evil.npy").read_bytes()})
    refused(path, "x_mean is longer or shorter")
    rezip(path, members | {"x_mean.npy": members["x_mean.npy"].replace(b"<f8", b"|O8")})
    refused(path, "x_mean has a dtype or shape other than header.json says")


def entry(content: bytes | bytearray, name: bytes) -> int:
    """Find the central directory entry of a member."""
    start = -1
    while True:
        start = content.index(b"PK\x01\x02", start + 1)
        if content[start + 46 :].startswith(name):
            return start


def set_size(content: bytearray, name: bytes, size: int) -> None:
    struct.pack_into("<II", content, entry(content, name) + 20, size, size)


@pytest.mark.parametrize("size", [0, 100, 20_000, 2**31, 2**32 - 2])
def test_sizes_that_lie(path: Path, size: int) -> None:
    before = path.read_bytes()
    for name in (b"header.json", b"m_w_0.npy", b"history_n_held.npy"):
        content = bytearray(before)
        set_size(content, name, size)
        path.write_bytes(content)
        refused(path, "")
    refused(path, "claims too many bytes" if size > 10_000 else "longer or shorter")


def test_overlapping_members(path: Path) -> None:
    content = bytearray(path.read_bytes())
    offset = content[entry(content, b"m_w_0.npy") + 42 :][:4]
    start = entry(content, b"v_w_0.npy") + 42
    content[start : start + 4] = offset
    path.write_bytes(content)
    refused(path, "overlap")


def peak_of_loading(path: Path) -> int:
    """Most bytes allocated at a time; a first load pays for imports and caches."""
    peak = 0
    for _ in range(2):
        tracemalloc.start()
        try:
            load(path)
        except ModelFileError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return peak


def test_tempering_is_bounded_by_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m"
    PBPRegressor((2000,), n_epochs=1, random_state=0).fit(X, Y).save(path)
    content, size = path.read_bytes(), path.stat().st_size
    assert size > 400_000
    assert peak_of_loading(path) < 3 * size

    with header_of(path) as header:
        header["arrays"]["m_w_0"]["shape"] = [10**12, 1]
    refused(path, "longer or shorter than its shape says")
    assert peak_of_loading(path) < 2 * size

    for name in (b"header.json", b"m_w_0.npy"):
        lying = bytearray(content)
        set_size(lying, name, 2**32 - 2)
        path.write_bytes(lying)
        refused(path, "")
        assert peak_of_loading(path) < 2 * size

    path.write_bytes(content)
    rezip(path, unzip(path) | {"m_w_0.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    refused(path, "compressed")
    assert peak_of_loading(path) < 2 * size


def test_a_huge_header(path: Path) -> None:
    members = unzip(path)
    padding = b" " * persistence._HEADER_LIMIT
    rezip(path, members | {"header.json": members["header.json"] + padding})
    refused(path, "claims too many bytes")

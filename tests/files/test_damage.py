"""Files that are not models, damaged, or hostile: one clear error each."""

from __future__ import annotations

import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_files import LAYERED, X, Y, header_of, read_model, refused, rezip, unzip, write_model
from probprop import ModelFileError, io, load
from probprop.estimators.regressor import PBPRegressor

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
    refused(path, "format 99, this one reads up to 1): upgrade", "was written by a newer probprop")


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
    "log_evidence_": [-INF, None, "inf", "nan", "-inf", "0"],
    "posterior_": [[], None, REMOVE, {}, "posterior_"],
    "standardizer_": [[], None, REMOVE, {}],
    "history_": [[], None, REMOVE, {}, {"columns": [], "values": "history_"}],
    "likelihood_": [[], None, REMOVE, {"class": 1}],
    "another": [1],
}
POSTERIOR: dict[str, list[Any]] = {
    "alpha_prior": [1.0, 0.5, INF, REMOVE],
    "beta_prior": [0.0, -1.0, INF],
    "alpha_noise": [6.0, [6.0], None, "beta_noise", "posterior_/beta_noise", REMOVE],
    "noise_network": [{}, [], 1],
    "another": [1],
}
VECTORS: dict[str, list[Any]] = {
    "standardizer_/y_mean": [NAN, INF],
    "standardizer_/y_scale": [0.0, -1.0, NAN, INF],
    "posterior_/alpha_noise": [1.0, 0.5, -1.0, NAN, INF],
    "posterior_/beta_noise": [0.0, -1.0, NAN],
    "posterior_/tail": [-1.0, 0.5, 1e9, NAN],
}
LAYERS = ["posterior_/m_w/0", "posterior_/m_w/1"]
STRUCTURE: list[Any] = [3, REMOVE, [], LAYERS[:1], LAYERS[::-1], LAYERS * 2, LAYERS[0], {"0": 1}]
STRUCTURE += [[1, 2], [None] * 2, [LAYERS], [*LAYERS, "posterior_/m_w/2"], LAYERS[:1] * 100_000]
COLUMNS: list[Any] = [None, [], {}, ["n_iter"] * 10, ["n_iter", 1], [[], {}]]
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


@pytest.mark.parametrize(("name", "value"), each(POSTERIOR))
def test_impossible_fields_of_the_posterior(path: Path, name: str, value: Any) -> None:
    with header_of(path) as header:
        put(header["posterior_"], name, value)
    refused(path, f"posterior_/{name}")


@pytest.mark.parametrize(("name", "value"), each(VECTORS))
def test_impossible_vectors(path: Path, name: str, value: float) -> None:
    tree, arrays = read_model(path)
    write_model(path, tree, arrays | {name: np.array([value])})
    refused(path, name.rpartition("/")[2])
    write_model(path, tree, arrays | {name: np.array([2.0, 3.0])})
    refused(path, "per output" if "tail" in name else "does not fit the other arrays")


@pytest.mark.parametrize("value", STRUCTURE)
def test_impossible_structure(path: Path, value: Any) -> None:
    with header_of(path) as header:
        put(header["posterior_"], "m_w", value)
    refused(path, "")


@pytest.mark.parametrize("value", COLUMNS)
def test_impossible_columns_of_the_history(path: Path, value: Any) -> None:
    with header_of(path) as header:
        header["history_"]["columns"] = value
    refused(path, "history_")


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, 2.0), (0, 1.5), (0, NAN), (1, -1.0), (1, 1e17), (3, -1.0), (4, NAN)],
)
def test_impossible_values_of_the_history(path: Path, column: int, value: float) -> None:
    tree, arrays = read_model(path)
    arrays["history_"][0, column] = value
    write_model(path, tree, arrays)
    refused(path, "history_")


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
        assert header["arrays"][LAYERS[0]] == {"dtype": "<f8", "shape": [4, 4]}
        header["arrays"][LAYERS[0]] = described
    refused(path, "")


@pytest.mark.parametrize("value", [NAN, INF, -INF, 0.0, -1.0])
@pytest.mark.parametrize("name", [*(f"{kind}/1" for kind in LAYERED), "x_mean", "x_scale"])
def test_values_that_are_not_finite_or_not_positive(path: Path, name: str, value: float) -> None:
    header, arrays = read_model(path)
    name = f"standardizer_/{name}" if name.startswith("x_") else f"posterior_/{name}"
    arrays[name].flat[-1] = value
    write_model(path, header, arrays)
    of_a_constant_column = name.endswith("x_scale") and value == INF
    if of_a_constant_column or (np.isfinite(value) and not name.endswith(("v_w/1", "x_scale"))):
        load(path)
    else:
        refused(path, "has values that are out of range")


@pytest.mark.parametrize(
    "change",
    [
        {"posterior_/m_w/1": np.zeros((1, 6))},
        {"posterior_/m_w/1": np.zeros((2, 5))},
        {"posterior_/m_w/1": np.zeros((1, 5), np.float32)},
        {"posterior_/m_w/1": np.zeros((1, 5), np.int64)},
        {"posterior_/m_w/1": np.zeros((1, 5), bool)},
        {"posterior_/m_w/1": np.zeros(5)},
        {"posterior_/v_hat_nat/0": np.zeros((4, 4), np.float32)},
        {"standardizer_/x_mean": np.zeros(4)},
        {"standardizer_/x_mean": np.zeros((3, 1))},
        {"history_": np.zeros(20)},
        {"history_": np.zeros((2, 9))},
        {"history_": np.zeros((2, 10), np.int64)},
        {"posterior_/m_w/1": None},
        {"standardizer_/x_scale": None},
        {"history_": None},
        {"posterior_/m_w/2": np.zeros((1, 2))},
        {"another": np.zeros(1)},
    ],
)
def test_arrays_that_do_not_fit_together(path: Path, change: dict[str, Any]) -> None:
    header, arrays = read_model(path)
    arrays = {k: a for k, a in (arrays | change).items() if a is not None}
    write_model(path, header, arrays)
    refused(path, "")


@pytest.mark.parametrize(
    "array", [np.zeros(1, "f2"), np.zeros(1, "c8"), np.zeros(1, "u1"), np.zeros((1, 1, 1))]
)
def test_arrays_of_other_kinds(path: Path, array: Any) -> None:
    header, arrays = read_model(path)
    write_model(path, header, arrays | {"standardizer_/x_mean": array})
    refused(path, "x_mean has a dtype or shape that no model has")


def test_truth_values_that_are_neither(path: Path) -> None:
    tree, arrays = read_model(path)
    write_model(path, tree, arrays | {"standardizer_/x_mean": np.full(3, 2, np.uint8).view(bool)})
    refused(path, "neither true nor false")


def test_networks_of_other_kinds(path: Path) -> None:
    tree, arrays = read_model(path)
    text = json.dumps(tree)
    two = {f"posterior_/{kind}/1": np.ones((2, 5)) for kind in LAYERED}
    write_model(path, tree, arrays | two)
    refused(path, "tail does not have a value per output")
    two["posterior_/tail"] = np.zeros(2)
    write_model(path, tree, arrays | two)
    refused(path, "its parts do not form one regression network")
    tree["likelihood_"]["n_targets"] = 2
    write_model(path, tree, arrays | two)
    refused(path, "its parts do not form one regression network")
    two |= {f"posterior_/{k}_noise": np.array([2.0, 3.0]) for k in ("alpha", "beta")}
    two |= {f"standardizer_/y_{k}": np.array([2.0, 3.0]) for k in ("mean", "scale")}
    write_model(path, tree, arrays | two)
    refused(
        path, "its parts do not form one regression network"
    )  # the noise of the epochs is of one
    tree = json.loads(text)
    tree["standardizer_"]["missing_variance"] = "standardizer_/missing_variance"
    half = {"standardizer_/missing_variance": np.full(3, 0.5)}
    write_model(path, tree, arrays | half)
    refused(path, "standardizer_/missing_variance has values that are out of range")
    tree, whole = json.loads(text), {}
    for k, a in arrays.items():
        if k.startswith(("posterior_/m_w", "posterior_/v_w")):
            whole[k] = np.ones(a.shape, int)
    write_model(path, tree, arrays | whole)
    refused(path, "the dtypes of m_w and v_w do not fit together")


def test_a_model_without_epochs(path: Path) -> None:
    header, arrays = read_model(path)
    arrays["history_"] = arrays["history_"][:0]
    write_model(path, header, arrays)
    refused(path, "history_ does not have every epoch")


def test_a_field_that_is_added_later_gets_its_default(path: Path) -> None:
    """So files of today load for ever: `n_held` has a default, and so has `tail`."""
    tree, arrays = read_model(path)
    n_held = tree["history_"]["columns"].index("n_held")
    del tree["history_"]["columns"][n_held], tree["posterior_"]["tail"], arrays["posterior_/tail"]
    arrays["history_"] = np.delete(arrays["history_"], n_held, axis=1)
    expected = load(path).history_
    write_model(path, tree, arrays)
    assert load(path).history_ == expected


# ---- Hostile zips


def test_missing_and_extra_members(path: Path) -> None:
    members = unzip(path)
    rezip(path, {k: v for k, v in members.items() if k != "standardizer_/x_mean.npy"})
    refused(path, "the member standardizer_/x_mean.npy is missing or unexpected")
    for extra in ("extra.npy", "../../evil", "", "standardizer_/x_mean.npy/"):
        rezip(path, members | {extra: b"x"})
        refused(path, f"the member {extra} is missing or unexpected")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["header.json", "posterior_/m_w/0.npy"])
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
    rezip(path, members | {"standardizer_/x_mean.npy": (path.parent / "evil.npy").read_bytes()})
    refused(path, "x_mean is longer or shorter")
    name = "standardizer_/x_mean.npy"
    rezip(path, members | {name: members[name].replace(b"<f8", b"|O8")})
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
    for name in (b"header.json", b"posterior_/m_w/0.npy", b"history_.npy"):
        content = bytearray(before)
        set_size(content, name, size)
        path.write_bytes(content)
        refused(path, "")
    refused(path, "claims too many bytes" if size > 10_000 else "longer or shorter")


def test_overlapping_members(path: Path) -> None:
    content = bytearray(path.read_bytes())
    offset = content[entry(content, b"posterior_/m_w/0.npy") + 42 :][:4]
    start = entry(content, b"posterior_/v_w/0.npy") + 42
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
        header["arrays"][LAYERS[0]]["shape"] = [10**12, 1]
    refused(path, "longer or shorter than its shape says")
    assert peak_of_loading(path) < 2 * size

    for name in (b"header.json", b"posterior_/m_w/0.npy"):
        lying = bytearray(content)
        set_size(lying, name, 2**32 - 2)
        path.write_bytes(lying)
        refused(path, "")
        assert peak_of_loading(path) < 2 * size

    path.write_bytes(content)
    rezip(path, unzip(path) | {"posterior_/m_w/0.npy": bytes(10**8)}, zipfile.ZIP_DEFLATED)
    refused(path, "compressed")
    assert peak_of_loading(path) < 2 * size


def test_a_huge_header(path: Path) -> None:
    members = unzip(path)
    padding = b" " * io._HEADER_LIMITS[io.MODEL]
    rezip(path, members | {"header.json": members["header.json"] + padding})
    refused(path, "claims too many bytes")

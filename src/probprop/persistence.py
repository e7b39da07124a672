"""Fitted models in one file, without pickle.

A model file is an uncompressed zip in the layout of ``numpy.savez``: ``header.json``, then one
``<name>.npy`` per array; ``numpy.load`` opens it too and gives the header as bytes. `write_model`
and `read_model` know nothing of estimators; two functions per estimator turn it into a header
and arrays, and back. Reading runs no code, allocates a small multiple of the file's size, and
accepts only what `write_model` writes. Whatever an older probprop would misread takes a new
`FORMAT_VERSION`; older versions stay readable, and parameters they lack get their defaults.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, get_type_hints

import numpy as np
from sklearn.utils import check_random_state

from probprop.posterior import Array, Epoch, Posterior
from probprop.standardize import Standardizer

if TYPE_CHECKING:  # these import this module
    from probprop.regressor import PBPRegressor
    from probprop.table import TableModel

FORMAT_VERSION = 1
_Path = str | os.PathLike[str]
_Parts = tuple[dict[str, Any], dict[str, Array]]  # header and arrays

_HEADER = "header.json"
_HEADER_LIMIT = 8 << 20  # parsed, JSON takes up to 30 times its size
_DAMAGED = "is truncated or damaged ({}): restore a copy, or fit the model again and save it."
_FOREIGN = "is not a probprop model ({}): give the path of a file that `save` wrote."
_NEWER = "was written by a newer probprop ({}): upgrade with `pip install --upgrade probprop`."


class ModelFileError(ValueError):
    """The file is not a model this version can read; the message says why and what to do."""


def _error(path: _Path, kind: str, reason: object) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)} {kind.format(reason)}")


def write_model(path: _Path, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a JSON header and arrays (float32, float64, int64; 1-d or 2-d) to one file.

    It is written beside `path` as ``.probprop-*.tmp`` and renamed: a crash leaves the old file
    or the new one, and perhaps a temporary file. A symbolic link is written through.
    """
    from probprop import __version__

    arrays = {k: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for k, a in arrays.items()}
    described = {k: {"dtype": a.dtype.str, "shape": list(a.shape)} for k, a in arrays.items()}
    header = {"format": "probprop", "format_version": FORMAT_VERSION, **header}
    header |= {"probprop_version": __version__, "arrays": described}
    text = json.dumps(header, allow_nan=False, indent=1).encode()
    if len(text) > _HEADER_LIMIT:
        raise ValueError(f"its feature names are too long, {len(text)} bytes of JSON")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.file_size = array.nbytes + 128  # so that zipfile takes ZIP64 where it must
            with archive.open(info, "w") as member:
                member.write(_npy_header(array.dtype.str, array.shape))
                member.write(array.data)


def read_model(path: _Path) -> _Parts:
    """Read what `write_model` wrote; anything else is a `ModelFileError`."""
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe could wait for ever
        raise _error(path, _FOREIGN, "it is not a regular file")
    with open(path, "rb") as file:
        start = file.read(4)
        if not b"PK\x03\x04".startswith(start):
            raise _error(path, _FOREIGN, "it is another kind of file")
        try:
            if not zipfile.is_zipfile(file):
                raise ValueError("its end is missing" if start else "it is empty")
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, path, os.fstat(file.fileno()).st_size)
        except (ModelFileError, MemoryError):
            raise
        except Exception as error:  # zipfile raises a dozen types for what is damaged
            raise _error(path, _DAMAGED, str(error) or type(error).__name__) from error


def _read_archive(archive: zipfile.ZipFile, path: _Path, size: int) -> _Parts:
    """Read the members; ValueError, and whatever zipfile raises, mean damage."""
    members = {info.filename: info for info in archive.infolist()}
    if _HEADER not in members:
        raise _error(path, _FOREIGN, f"it is a zip file without {_HEADER}")
    if len(members) != len(archive.infolist()):
        raise ValueError("two members have the same name")
    end = 0
    for info in sorted(members.values(), key=lambda info: info.header_offset):
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"{info.filename} is compressed")
        if info.header_offset < end:
            raise ValueError("its members overlap")
        end = info.header_offset + 30 + len(info.filename) + info.file_size
    if end > size or members[_HEADER].file_size > _HEADER_LIMIT:
        raise ValueError("a member claims too many bytes")
    try:
        header = json.loads(archive.read(members.pop(_HEADER)).decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _error(path, _FOREIGN, f"its {_HEADER} is not JSON") from error
    if not isinstance(header, dict) or header.get("format") != "probprop":
        raise _error(path, _FOREIGN, f"its {_HEADER} does not say that it is one")
    if (version := _field(header, "format_version", int)) > FORMAT_VERSION:
        raise _error(path, _NEWER, f"format {version}, this one reads up to {FORMAT_VERSION}")
    described = _field(header, "arrays", dict)
    if differing := members.keys() ^ {f"{name}.npy" for name in described}:
        raise ValueError(f"the member {min(differing)[:50]} is missing or unexpected")
    return header, {k: _read_array(archive, k, _field(described, k, dict)) for k in described}


def _read_array(archive: zipfile.ZipFile, name: str, described: dict[str, Any]) -> Array:
    dtype, shape = _field(described, "dtype", str), _field(described, "shape", list)
    possible = len(shape) in (1, 2) and all(type(n) is int and n >= 0 for n in shape)
    if dtype not in ("<f4", "<f8", "<i8") or not possible:
        raise ValueError(f"{name} has a dtype or shape that no model has")
    npy_header = _npy_header(dtype, tuple(shape))
    n_bytes = len(npy_header) + math.prod(shape) * np.dtype(dtype).itemsize
    if archive.getinfo(f"{name}.npy").file_size != n_bytes:
        raise ValueError(f"{name} is longer or shorter than its shape says")
    content = archive.read(f"{name}.npy")  # verifies the checksum
    if not content.startswith(npy_header):
        raise ValueError(f"{name} has a dtype or shape other than {_HEADER} says")
    array = np.frombuffer(content, dtype, offset=len(npy_header)).reshape(shape)
    return array.astype(array.dtype.newbyteorder("="))  # a copy, and writable


def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the one NPY 1.0 header of such an array: reading compares and need not parse."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def _field(mapping: dict[str, Any], key: str, kind: type) -> Any:
    """Return an entry of exactly this type (a bool is no int)."""
    if type(mapping.get(key)) is not kind:
        raise ValueError(f"{key} in {_HEADER} is missing or not of type {kind.__name__}")
    return mapping[key]


@contextmanager
def replacing(path: _Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` once it is safely on the disk."""
    target = os.path.realpath(path)
    mode = 0o666
    with suppress(FileNotFoundError):
        # Fails where an ordinary write does: a protected file, a directory, a loop of links.
        probe = os.open(target, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        mode = os.fstat(probe).st_mode
        os.close(probe)
        if not stat.S_ISREG(mode):
            raise ValueError(f"{target} is not a regular file")
    temporary = os.path.join(os.path.dirname(target), f".probprop-{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb", opener=lambda p, flags: os.open(p, flags, mode & 0o666)) as file:
            if stat.S_ISREG(mode):  # of the old file; a new one has what the umask left
                os.chmod(temporary, stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C as well
        with suppress(OSError):
            os.unlink(temporary)
        raise
    with suppress(OSError):  # the model is in place; not every system can do more
        descriptor = os.open(os.path.dirname(target), os.O_RDONLY)
        with suppress(OSError):
            os.fsync(descriptor)
        os.close(descriptor)


# ---- Estimators: their parts are named after the attributes they come from
_LAYERED = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
_ABOVE = {"alpha_noise": 1.0, "beta_noise": 0.0, "alpha_prior": 1.0, "beta_prior": 0.0}
_ABOVE |= {"y_mean": -math.inf, "y_scale": 0.0, "log_evidence_": -math.inf}
_HISTORY = {k: "int64" if t is int else "float64" for k, t in get_type_hints(Epoch).items()}


def save_regressor(model: PBPRegressor, path: _Path) -> None:
    """Write a fitted regressor to one file.

    Parameters come back as plain numbers, strings, lists and tuples; a RandomState comes back
    as None, since all that `partial_fit` and `predict` need is in the posterior.
    """
    _save(path, _describe_regressor, model)


def save_table_model(model: TableModel, path: _Path) -> None:
    """Write a model of a table to one file: the regressor, and what encodes its columns."""
    _save(path, _describe_table_model, model)


def _save(path: _Path, describe: Callable[[Any], _Parts], model: Any) -> None:
    try:
        header, arrays = describe(model)
        _REBUILD[header["class"]](header, arrays)  # what could not be loaded is not saved
        write_model(path, header, arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The model cannot be saved: {error}") from error


def load(path: _Path) -> PBPRegressor | TableModel:
    """Read a model that its `save` method wrote, to predict and go on exactly as it did.

    A file that is no model, is damaged, or was written by a newer probprop raises
    `ModelFileError`. Files of unknown origin are safe to try: nothing in them is run.
    """
    header, arrays = read_model(path)
    try:
        name = inner = _field(header, "class", str)
        if name == "TableModel":
            inner = _field(_field(header, "regressor", dict), "class", str)
        if inner in _REGRESSORS:
            return _REBUILD[name](header, arrays)
    except (TypeError, ValueError) as error:
        raise _error(path, _DAMAGED, error) from error
    raise _error(path, _NEWER, f"this one has no {inner[:50]}")


def _describe_regressor(model: PBPRegressor) -> _Parts:
    if (name := type(model).__name__) not in _REGRESSORS:
        raise TypeError(f"{name} is another class; use pickle")
    state = vars(model) | vars(model.posterior_) | vars(model.standardizer_)
    header = {
        "class": name,
        "parameters": {k: _plain(value) for k, value in model.get_params().items()},
        "feature_names_in_": [str(k) for k in state.get("feature_names_in_", ())],
        "layer_sizes": list(model.posterior_.layer_sizes),
        "weights_dtype": model.posterior_.dtype.name,
        "n_iter_": model.n_iter_,
        "n_samples_seen_": model.n_samples_seen_,
        **{k: float(state[k]) for k in _ABOVE},
    }
    arrays = {f"{k}_{i}": array for k in _LAYERED for i, array in enumerate(state[k])}
    arrays |= {"x_mean": state["x_mean"], "x_scale": state["x_scale"]}
    for k, dtype in _HISTORY.items():
        arrays[f"history_{k}"] = np.array([getattr(epoch, k) for epoch in model.history_], dtype)
    return header, arrays


def _plain(value: Any) -> Any:
    """Return a parameter as JSON holds it: a tuple as a mapping, a RandomState as null."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_plain(item) for item in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    return None if isinstance(value, np.random.RandomState) else value


def _rebuild_regressor(header: dict[str, Any], arrays: dict[str, Array]) -> PBPRegressor:
    """Undo `_describe_regressor`; TypeError and ValueError say why that is not possible."""
    from probprop.regressor import PBPRegressor

    model = PBPRegressor(**_field(header, "parameters", dict))
    if isinstance(model.hidden_layer_sizes, dict):
        model.hidden_layer_sizes = tuple(_field(model.hidden_layer_sizes, "tuple", list))
    model._check_parameters()
    check_random_state(model.random_state)

    q: dict[str, Any] = {k: _field(header, k, float) for k in _ABOVE}
    if bad := [k for k, lowest in _ABOVE.items() if not lowest < q[k] < math.inf]:
        raise ValueError(f"{bad[0]} is {q[bad[0]]}")
    n_iter, n_seen = _field(header, "n_iter_", int), _field(header, "n_samples_seen_", int)
    sizes, weights = _field(header, "layer_sizes", list), _field(header, "weights_dtype", str)
    if not 2 <= len(sizes) <= len(arrays) or sizes[-1] != 1 or weights == "int64":
        raise ValueError("the layers are not those of a regression network")
    expected: dict[str, Any] = {f"history_{k}": (t, (n_iter,)) for k, t in _HISTORY.items()}
    expected |= {k: ("float64", (sizes[0],)) for k in ("x_mean", "x_scale")}
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        expected |= {f"{k}_{i}": (weights, (n_out, n_in + 1)) for k in ("m_w", "v_w")}
        expected |= {f"{k}_{i}": ("float64", (n_out, n_in + 1)) for k in _LAYERED[2:]}
    if {k: (a.dtype.name, a.shape) for k, a in arrays.items()} != expected:
        raise ValueError("the shapes or dtypes of the arrays do not fit together")
    for k, a in arrays.items():
        lowest = 0.0 if k.startswith(("v_w", "x_scale")) else -math.inf
        if a.size == 0 or not (np.isfinite(a) & (a > lowest)).all():
            raise ValueError(f"{k} has values that no fitted model has")
    names = _field(header, "feature_names_in_", list)
    if len(names) not in (0, sizes[0]) or any(type(name) is not str for name in names):
        raise ValueError("feature_names_in_ does not have one name per feature")

    y_mean, y_scale, log_evidence = (q.pop(k) for k in ("y_mean", "y_scale", "log_evidence_"))
    q |= {k: tuple(arrays[f"{k}_{i}"] for i in range(len(sizes) - 1)) for k in _LAYERED}
    standardizer = Standardizer(arrays["x_mean"], arrays["x_scale"], y_mean, y_scale)
    columns = [arrays[f"history_{k}"].tolist() for k in _HISTORY]
    history = [Epoch(*row) for row in zip(*columns, strict=True)]
    model._publish(Posterior(**q), standardizer, history, log_evidence, n_seen)
    model.n_features_in_ = len(arrays["x_mean"])
    if names:
        model.feature_names_in_ = np.array(names, object)
    return model


def _describe_table_model(model: TableModel) -> _Parts:
    described, arrays = _describe_regressor(model.regressor)
    known = model.categories
    columns = [
        {"name": k, "kind": kind} | ({"categories": known[k]} if kind == "text" else {})
        for k, kind in model.kinds.items()
    ]
    header = {"class": "TableModel", "target": model.target, "columns": columns}
    return header | {"regressor": described}, arrays


def _rebuild_table_model(header: dict[str, Any], arrays: dict[str, Array]) -> TableModel:
    """Undo `_describe_table_model`; TypeError and ValueError say why that is not possible."""
    from probprop.table.model import TableModel, build_encoder

    regressor = _rebuild_regressor(_field(header, "regressor", dict), arrays)
    target, columns = _field(header, "target", str), _field(header, "columns", list)
    if any(type(column) is not dict for column in columns):
        raise ValueError("a column is not described")
    kinds = {_field(column, "name", str): _field(column, "kind", str) for column in columns}
    if not {*kinds.values()} <= {"number", "boolean", "text"}:
        raise ValueError("a column is of a kind that no model has")
    if len(kinds) < len(columns) or target in kinds:
        raise ValueError("two columns have the same name")
    texts = [column for column in columns if column["kind"] == "text"]
    categories = {column["name"]: _field(column, "categories", list) for column in texts}
    for known in categories.values():
        if not known or any(type(c) is not str for c in known) or len({*known}) < len(known):
            raise ValueError("categories are not different texts")
    if len(kinds) - len(texts) + sum(map(len, categories.values())) != regressor.n_features_in_:
        raise ValueError("the columns are not those that the regressor was fitted on")
    return TableModel(regressor, build_encoder(kinds, categories), list(kinds), target)


_REGRESSORS = {"PBPRegressor": _rebuild_regressor}
_REBUILD: dict[str, Callable[[dict[str, Any], dict[str, Array]], PBPRegressor | TableModel]]
_REBUILD = {**_REGRESSORS, "TableModel": _rebuild_table_model}

"""One codec for model files and checkpoints: declared classes as JSON and arrays in one file.

The fields of a class and their types are its annotations. A `Declared` adds the ranges of the
values, conditions on several fields, and how the object is made. The input of `decode` may be
malicious: it accepts only values of the declared types and ranges.

A file is an uncompressed zip in the layout of ``numpy.savez``: ``header.json``, then one
``<name>.npy`` per array. Reading runs no code, allocates a small multiple of the file's size, and
accepts only what `write_file` writes. Files of a `FORMAT_VERSION` stay readable: a field that is
added later needs a default, and a change that an older probprop would misread takes a new version.
"""

from __future__ import annotations

import json
import math
import os
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache
from inspect import signature
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from probprop._atomic import replacing
from probprop._types import Array, FloatArray
from probprop._version import __version__

FORMAT_VERSION = 1
MODEL, CHECKPOINT = "probprop", "probprop checkpoint"  # the two forms of files
LARGEST_COUNT = 2**53  # more samples, or epochs, than any model has seen; exact as a float

_HEADER = "header.json"
_NAME_AT = 30  # where a zip file has the name of its first member
# Parsed, JSON takes up to 30 times its size; a checkpoint may have thousands of networks.
_HEADER_LIMITS = {MODEL: 8 << 20, CHECKPOINT: 64 << 20}
_DTYPES = ("<f4", "<f8", "<i8", "|b1")
_UNIONS = (Union, types.UnionType)
_LISTS = (list, Sequence)
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ROW = {int, float, float | tuple[float, ...]}  # types of the columns of a table
_Path = str | os.PathLike[str]


class ModelFileError(ValueError):
    """The file is not a model this version can read; the message says why and what to do."""


class Foreign(ValueError):
    """The file is of another kind."""


class Newer(ValueError):
    """The file needs a newer probprop."""


# ---- Declarations

Check = Callable[[Any], Any]
"""Whether a number, or each number of an array, is in its range."""


def above(low: float, high: float = math.inf) -> Check:
    """Return the check of numbers in the open interval (low, high)."""
    return lambda x: (x > low) & (x < high)


def within(low: float, high: float) -> Check:
    """Return the check of numbers in the closed interval [low, high]."""
    return lambda x: (x >= low) & (x <= high)


_is_count = within(0, LARGEST_COUNT)


def anything(x: Any) -> bool:
    """Accept every number, also those that are not finite."""
    return True


class Declared(NamedTuple):
    """Constraints on the values of a class in a file, besides its annotations."""

    ranges: Mapping[str, Check] = {}  # else floats are finite, and ints are counts
    shapes: Mapping[str, str] = {}  # of arrays: "n", "n m"; the same letter is the same length
    check: Callable[[Any], None] | None = None  # raises ValueError if fields do not fit together
    types: Mapping[str, Any] = {}  # of fields, where they differ from the annotations
    take: Callable[[Any], Mapping[str, Any]] | None = None  # fields of an object; None: attributes
    make: Callable[..., Any] | None = None  # has a parameter for each field; None: the class


Declarations = Mapping[Any, Declared]


@cache
def _annotations(make: Any) -> dict[str, Any]:
    """Return the types of the fields: of a record, or of a function that makes an object."""
    if is_dataclass(make) or hasattr(make, "_fields"):
        return get_type_hints(make)
    return {k: each.annotation for k, each in signature(make, eval_str=True).parameters.items()}


@cache
def _defaults(make: Any) -> dict[str, Any]:
    """Return the optional fields, for which there is a default."""
    given = signature(make).parameters.items()
    return {name: each.default for name, each in given if each.default is not each.empty}


def _is_table(kind: Any) -> bool:
    """Whether the objects of a list are rows of numbers, which one array holds."""
    return hasattr(kind, "_fields") and {*_annotations(kind).values()} <= _ROW


def _options(hint: Any) -> list[Any]:
    return [option for option in get_args(hint) if option is not type(None)]


def _joined(name: str, key: object) -> str:
    return f"{name}/{key}" if name else str(key)


# ---- To JSON and arrays


def encode(hint: Any, value: Any, declarations: Declarations) -> tuple[Any, dict[str, Array]]:
    """Return a value of a declared type as JSON, and its arrays by name."""
    arrays: dict[str, Array] = {}
    return _Encoder(declarations, arrays).encoded(hint, value, ""), arrays


class _Encoder(NamedTuple):
    declarations: Declarations
    arrays: dict[str, Array]  # filled on the way

    def encoded(self, hint: Any, value: Any, name: str) -> Any:
        """Return a value as JSON; an array is represented by its name."""
        origin, args = get_origin(hint), get_args(hint)
        if hint is Any or origin is Literal:
            return value
        if origin in _UNIONS:
            return self._option(hint, value, name)
        if origin is np.ndarray:
            array = np.asarray(value)
            dtype = (
                np.dtype(np.int64) if array.dtype.kind in "iu" else array.dtype.newbyteorder("=")
            )
            self.arrays[name] = np.ascontiguousarray(array, dtype)
            return name
        if origin in _LISTS or origin is tuple:
            if origin is list and _is_table(args[0]):
                return self._table(args[0], value, name)
            return [
                self.encoded(kind, item, _joined(name, i))
                for i, (kind, item) in enumerate(_each(hint, value))
            ]
        if origin in (dict, Mapping):
            return {k: self.encoded(args[1], v, _joined(name, k)) for k, v in value.items()}
        if hint is float:
            number = float(value)
            return number if math.isfinite(number) else str(number)
        if hint in (int, bool, str):
            return hint(value)
        return self._record(hint, value, name)

    def _option(self, hint: Any, value: Any, name: str) -> Any:
        options = _options(hint)
        if value is None and len(options) < len(get_args(hint)):
            return None
        if len(options) == 1:
            return self.encoded(options[0], value, name)
        for option in options:
            if type(value) is (get_origin(option) or option):
                node = self.encoded(option, value, name)
                return {"class": option.__name__, **node} if isinstance(node, dict) else node
        raise TypeError(f"{type(value).__name__} is another class; use pickle")

    def _record(self, kind: Any, value: Any, name: str) -> dict[str, Any]:
        declared = self.declarations.get(kind, Declared())
        types = {**_annotations(declared.make or kind), **declared.types}
        got = declared.take(value) if declared.take else {k: getattr(value, k) for k in types}
        known = [(k, t) for k, t in types.items() if k in got]  # others have their defaults
        return {k: self.encoded(t, got[k], _joined(name, k)) for k, t in known}

    def _table(self, kind: Any, rows: Sequence[Any], name: str) -> dict[str, Any]:
        """Return the columns of rows of numbers: one array, with a name for each column."""
        columns = [np.array([getattr(row, k) for row in rows], np.float64) for k in kind._fields]
        names = [
            k
            for k, column in zip(kind._fields, columns, strict=True)
            for _ in range(column.shape[1] if column.ndim == 2 else 1)
        ]
        self.arrays[name] = np.column_stack(columns)
        return {"columns": names, "values": name}


def _each(hint: Any, value: Any) -> list[tuple[Any, Any]]:
    """Return the items of a sequence with their types."""
    args = get_args(hint)
    if get_origin(hint) is not tuple or args[-1] is ...:
        return [(args[0], item) for item in value]
    if len(value) != len(args):
        raise ValueError(f"expected {len(args)} items, got {len(value)}")
    return list(zip(args, value, strict=True))


# ---- From JSON and arrays


def decode(hint: Any, node: Any, arrays: Mapping[str, Array], declarations: Declarations) -> Any:
    """Undo `encode`; TypeError and ValueError say why that is not possible."""
    left = dict(arrays)
    value = _Decoder(declarations, left).decoded(hint, node, "", None)
    if left:
        raise ValueError(f"the array {min(left)[:50]} belongs to no part of the model")
    return value


class _Decoder(NamedTuple):
    declarations: Declarations
    left: dict[str, Array]  # arrays that no part has taken yet

    def decoded(self, hint: Any, node: Any, name: str, check: Check | None) -> Any:
        """Return the value of a declared type; a range applies to all numbers inside."""
        origin, args = get_origin(hint), get_args(hint)
        if hint is Any:
            return node
        if origin in _UNIONS:
            return self._option(hint, node, name, check)
        if origin is np.ndarray:
            return self._array(hint, node, name, check)
        if origin is Literal:
            if not any(type(node) is type(arg) and node == arg for arg in args):
                raise _wrong(name, f"one of {', '.join(map(repr, args))}")
            return node
        if origin in _LISTS or origin is tuple:
            if origin is list and _is_table(args[0]):
                return self._table(args[0], node, name)
            pairs = enumerate(_each(hint, typed(node, list, name)))
            items = [self.decoded(k, item, _joined(name, i), check) for i, (k, item) in pairs]
            return tuple(items) if origin is tuple else items
        if origin in (dict, Mapping):
            pairs = typed(node, dict, name).items()
            return {k: self.decoded(args[1], v, _joined(name, k), check) for k, v in pairs}
        if hint in (int, float, bool, str):
            return _scalar(hint, node, name, check)
        return self._record(hint, node, name)

    def _option(self, hint: Any, node: Any, name: str, check: Check | None) -> Any:
        options = _options(hint)
        if node is None and len(options) < len(get_args(hint)):
            return None
        if len(options) > 1 and isinstance(node, dict):
            found = typed(node.get("class"), str, _joined(name, "class"))
            options = [option for option in options if option.__name__ == found]
            if found not in {kind.__name__ for kind in self.declarations}:
                raise Newer(f"this one has no {found[:50]}")
            node = {k: v for k, v in node.items() if k != "class"}
        elif len(options) > 1:
            of_lists = isinstance(node, list)
            options = [o for o in options if (get_origin(o) in (list, tuple)) == of_lists]
        if not options:
            raise _wrong(name, "of a type that it can have")
        return self.decoded(options[0], node, name, check)

    def _array(self, hint: Any, node: Any, name: str, check: Check | None) -> Array:
        if typed(node, str, name) != name or name not in self.left:
            raise ValueError(f"the array {name[:100]} is missing")
        array = self.left.pop(name)
        if hint == FloatArray and array.dtype != np.float64:
            raise ValueError(f"{name} must be of dtype float64, got {array.dtype}")
        return _in_range(array, name, check)

    def _record(self, kind: Any, node: Any, name: str) -> Any:
        declared = self.declarations.get(kind, Declared())
        make, found = declared.make or kind, typed(node, dict, name)
        types = {**_annotations(make), **declared.types}
        if absent := types.keys() - found.keys() - _defaults(make).keys():
            raise ValueError(f"{_joined(name, min(absent))} is missing")
        if unknown := found.keys() - types.keys():
            raise ValueError(f"{_joined(name, min(unknown)[:50])} is unexpected")
        values = {
            k: self.decoded(types[k], found[k], _joined(name, k), declared.ranges.get(k))
            for k in types
            if k in found
        }
        _check_shapes(declared.shapes, values, name)
        made = make(**values)
        if declared.check is not None:
            declared.check(made)
        return made

    def _table(self, kind: Any, node: Any, name: str) -> list[Any]:
        types, ranges = _annotations(kind), self.declarations.get(kind, Declared()).ranges
        found = typed(node, dict, name)
        columns = typed(found.get("columns"), list, f"{name}/columns")
        matrix = self._array(FloatArray, found.get("values"), name, anything)
        if matrix.ndim != 2 or matrix.shape[1] != len(columns):
            raise ValueError(f"{name} does not have {len(columns)} columns")
        values = {}
        for k, hint in types.items():
            own = matrix[:, [i for i, column in enumerate(columns) if column == k]]
            if not own.shape[1] and k in _defaults(kind):
                values[k] = [_defaults(kind)[k]] * len(own)
                continue
            several = hint not in (int, float) and own.shape[1] > 1
            if own.shape[1] != 1 and not several:
                raise ValueError(f"{name}/{k} is missing or not one column")
            if hint is int and not (own == np.floor(own)).all():
                raise ValueError(f"{name}/{k} has values that are not whole")
            own = own if several else own[:, 0]
            default = _is_count if hint is int else np.isfinite
            _in_range(own, f"{name}/{k}", ranges.get(k, default))
            listed = (own.astype(np.int64) if hint is int else own).tolist()
            values[k] = [tuple(each) for each in listed] if several else listed
        if not {*map(str, columns)} <= values.keys():
            raise ValueError(f"{name} has other columns")
        return [kind(*row) for row in zip(*values.values(), strict=True)]


def typed(node: Any, kind: type, name: str) -> Any:
    """Return a part of the header that must be exactly of this type (a bool is not an int)."""
    if type(node) is not kind:
        raise _wrong(name, f"of type {kind.__name__}")
    return node


def _wrong(name: str, expected: str) -> ValueError:
    return ValueError(f"{name[:100] or 'the header'} is missing or not {expected}")


def _scalar(kind: Any, node: Any, name: str, check: Check | None) -> Any:
    if kind is float and isinstance(node, str) and node in _NOT_FINITE:
        node = _NOT_FINITE[node]
    typed(node, kind, name)
    if kind in (bool, str):
        return node
    allowed = check or (_is_count if kind is int else math.isfinite)
    if not allowed(node):
        raise ValueError(f"{name} is {str(node)[:30]}, which is out of range")
    return node


def _check_shapes(shapes: Mapping[str, str], values: Mapping[str, Any], name: str) -> None:
    lengths: dict[str, int] = {}
    for key, spec in shapes.items():
        letters, array = spec.split(), values.get(key)
        if array is not None and (
            array.ndim != len(letters)
            or any(lengths.setdefault(k, n) != n for k, n in zip(letters, array.shape, strict=True))
        ):
            raise ValueError(f"the shape of {_joined(name, key)} does not fit the other arrays")


def _in_range(array: Array, name: str, check: Check | None) -> Array:
    default = np.isfinite if array.dtype.kind == "f" else _is_count
    if not np.all((check or default)(array)):
        raise ValueError(f"{name} has values that are out of range")
    return array


# ---- Files


Contents = tuple[dict[str, Any], dict[str, Array], str]
"""What a file has: the JSON and the arrays of `encode`, and the version that wrote it."""


def write_file(
    path: _Path, form: str, tree: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write JSON and arrays of 1 or 2 dimensions to one file, whose header says its form.

    It is written next to `path` as ``.probprop-*.tmp`` and renamed: a crash leaves the old file
    or the new one, and perhaps a temporary file. A symbolic link stays, and its target is replaced.
    """
    little = {k: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for k, a in arrays.items()}
    described = {k: {"dtype": a.dtype.str, "shape": list(a.shape)} for k, a in little.items()}
    header = {"format": form, "format_version": FORMAT_VERSION, **tree}
    header |= {"probprop_version": __version__, "arrays": described}
    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > _HEADER_LIMITS[form]:
        raise ValueError(f"its feature names are too long or too many, {len(text)} bytes of JSON")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for name, array in little.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.file_size = array.nbytes + 128  # so that zipfile takes ZIP64 where it must
            with archive.open(info, "w") as member:
                member.write(_npy_header(array.dtype.str, array.shape))
                member.write(array.data)


_DAMAGED = "is truncated or damaged ({}): restore a copy, or fit the model again and save it."
_EXPLAINED: dict[type, str] = {
    Foreign: "is not a probprop model ({}): give a file that `save` or `probprop fit` wrote.",
    Newer: "was written by a newer probprop ({}): upgrade with `pip install --upgrade probprop`.",
}


@contextmanager
def reading_model(path: _Path) -> Iterator[None]:
    """Turn any error about the content of a model file into a message."""
    try:
        yield
    except (OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # zipfile raises a dozen types for damaged files
        words = _EXPLAINED.get(type(error), _DAMAGED)
        reason = words.format(str(error) or type(error).__name__)
        raise ModelFileError(f"{os.fspath(path)} {reason}") from error


def read_file(path: _Path, form: str) -> Contents:
    """Read what `write_file` wrote.

    `Foreign` and `Newer` say which other file it is; any other exception but OSError and
    MemoryError means that it is damaged.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe could wait for ever
        raise Foreign("it is not a regular file")
    with open(path, "rb") as file:
        start = file.read(4)
        if not b"PK\x03\x04".startswith(start):
            raise Foreign("it is another kind of file")
        if not zipfile.is_zipfile(file):
            raise ValueError("its end is missing" if start else "it is empty")
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, form, os.fstat(file.fileno()).st_size)
        except OSError as error:  # a place that the file does not have
            raise ValueError(str(error)) from error


def begins_as(path: _Path, form: str) -> bool:
    """Whether a file begins as one of this form, which may be damaged further on."""
    expected = _HEADER.encode() + json.dumps({"format": form}).removesuffix("}").encode()
    with open(path, "rb") as file:
        start = file.read(_NAME_AT + len(expected) + 1)
    return start.startswith(b"PK\x03\x04") and start[_NAME_AT:] == expected + b","


def _read_archive(archive: zipfile.ZipFile, form: str, size: int) -> Contents:
    """Read the members; ValueError, and whatever zipfile raises, mean damage."""
    members = {info.filename: info for info in archive.infolist()}
    if _HEADER not in members:
        raise Foreign(f"it is a zip file without {_HEADER}")
    if len(members) != len(archive.infolist()):
        raise ValueError("two members have the same name")
    end = 0
    for info in sorted(members.values(), key=lambda info: info.header_offset):
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"{info.filename} is compressed")
        if info.header_offset < end:
            raise ValueError("its members overlap")
        end = info.header_offset + 30 + len(info.filename) + info.file_size
    if end > size or members[_HEADER].file_size > _HEADER_LIMITS[form]:
        raise ValueError("a member claims too many bytes")
    try:
        header = json.loads(archive.read(members.pop(_HEADER)).decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Foreign(f"its {_HEADER} is not JSON") from error
    if not isinstance(header, dict) or header.pop("format", None) != form:
        raise Foreign(f"its {_HEADER} does not say that it is one")
    version = typed(header.pop("format_version", None), int, "format_version")
    if version > FORMAT_VERSION:
        raise Newer(f"format {version}, this one reads up to {FORMAT_VERSION}")
    described = typed(header.pop("arrays", None), dict, "arrays")
    if differing := members.keys() ^ {f"{name}.npy" for name in described}:
        raise ValueError(f"the member {min(differing)[:50]} is missing or unexpected")
    arrays = {k: _read_array(archive, k, typed(v, dict, k)) for k, v in described.items()}
    return header, arrays, typed(header.pop("probprop_version", None), str, "probprop_version")


def _read_array(archive: zipfile.ZipFile, name: str, described: dict[str, Any]) -> Array:
    dtype = typed(described.get("dtype"), str, f"dtype of {name}")
    shape = typed(described.get("shape"), list, f"shape of {name}")
    possible = len(shape) in (1, 2) and all(type(n) is int and n >= 0 for n in shape)
    if dtype not in _DTYPES or not possible:
        raise ValueError(f"{name} has a dtype or shape that no model has")
    npy_header = _npy_header(dtype, tuple(shape))
    n_bytes = len(npy_header) + math.prod(shape) * np.dtype(dtype).itemsize
    if archive.getinfo(f"{name}.npy").file_size != n_bytes:
        raise ValueError(f"{name} is longer or shorter than its shape says")
    content = archive.read(f"{name}.npy")  # verifies the checksum
    if not content.startswith(npy_header):
        raise ValueError(f"{name} has a dtype or shape other than {_HEADER} says")
    array = np.frombuffer(content, dtype, offset=len(npy_header)).reshape(shape)
    if dtype == "|b1" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{name} has values that are neither true nor false")
    return array.astype(array.dtype.newbyteorder("="))  # a copy, and writable


def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the one NPY 1.0 header of such an array: reading compares it and need not parse."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

"""Fitted models in one file, without pickle.

A model file is an uncompressed zip in the layout of ``numpy.savez``: ``header.json``, then one
``<name>.npy`` per array; ``numpy.load`` opens it too and gives the header as bytes. `write_model`
and `read_model` know nothing of estimators; the files beside this one turn those into a header and
arrays, and back. Reading runs no code, allocates a small multiple of the file's size, and
accepts only what `write_model` writes, in the one `FORMAT_VERSION` that it writes.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from typing import Any

import numpy as np

from probprop._atomic import replacing
from probprop._types import Array
from probprop._version import __version__
from probprop.files.fields import Parts, field

FORMAT_VERSION = 2
_Path = str | os.PathLike[str]

_HEADER = "header.json"
_NAME_AT = 30  # where a zip file has the name of its first member
_HEADER_LIMIT = 8 << 20  # parsed, JSON takes up to 30 times its size
DAMAGED = "is truncated or damaged ({}): restore a copy, or fit the model again and save it."
_FOREIGN = "is not a probprop model ({}): give the path of a file that `save` wrote."
_EARLIER = "was written by an earlier probprop ({}): fit the model again and save it."
NEWER = "was written by a newer probprop ({}): upgrade with `pip install --upgrade probprop`."


class ModelFileError(ValueError):
    """The file is not a model this version can read; the message says why and what to do."""


def file_error(path: _Path, kind: str, reason: object) -> ModelFileError:
    """Return the error that says what is wrong with the file, and why."""
    return ModelFileError(f"{os.fspath(path)} {kind.format(reason)}")


def write_model(path: _Path, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a JSON header and arrays (float32, float64, int64; 1-d or 2-d) to one file.

    It is written beside `path` as ``.probprop-*.tmp`` and renamed: a crash leaves the old file
    or the new one, and perhaps a temporary file. A symbolic link stays, and its target is replaced.
    """
    arrays = {k: np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for k, a in arrays.items()}
    described = {k: {"dtype": a.dtype.str, "shape": list(a.shape)} for k, a in arrays.items()}
    header = {"format": "probprop", "format_version": FORMAT_VERSION, **header}
    header |= {"probprop_version": __version__, "arrays": described}
    text = json.dumps(header, allow_nan=False, indent=1).encode()
    if len(text) > _HEADER_LIMIT:
        raise ValueError(f"its feature names are too long or too many, {len(text)} bytes of JSON")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.file_size = array.nbytes + 128  # so that zipfile takes ZIP64 where it must
            with archive.open(info, "w") as member:
                member.write(_npy_header(array.dtype.str, array.shape))
                member.write(array.data)


def read_model(path: _Path) -> Parts:
    """Read what `write_model` wrote; anything else is a `ModelFileError`."""
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe could wait for ever
        raise file_error(path, _FOREIGN, "it is not a regular file")
    with open(path, "rb") as file:
        start = file.read(4)
        if not b"PK\x03\x04".startswith(start):
            raise file_error(path, _FOREIGN, "it is another kind of file")
        try:
            if not zipfile.is_zipfile(file):
                raise ValueError("its end is missing" if start else "it is empty")
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive, path, os.fstat(file.fileno()).st_size)
        except (ModelFileError, MemoryError):
            raise
        except Exception as error:  # zipfile raises a dozen types for damaged files
            raise file_error(path, DAMAGED, str(error) or type(error).__name__) from error


def begins_as_model(path: _Path) -> bool:
    """Whether the first bytes of a file are those of a model, which may be damaged further on."""
    with open(path, "rb") as file:
        start = file.read(_NAME_AT + len(_HEADER))
    return start.startswith(b"PK\x03\x04") and start[_NAME_AT:] == _HEADER.encode()


def _read_archive(archive: zipfile.ZipFile, path: _Path, size: int) -> Parts:
    """Read the members; ValueError, and whatever zipfile raises, mean damage."""
    members = {info.filename: info for info in archive.infolist()}
    if _HEADER not in members:
        raise file_error(path, _FOREIGN, f"it is a zip file without {_HEADER}")
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
        raise file_error(path, _FOREIGN, f"its {_HEADER} is not JSON") from error
    if not isinstance(header, dict) or header.get("format") != "probprop":
        raise file_error(path, _FOREIGN, f"its {_HEADER} does not say that it is one")
    if (version := field(header, "format_version", int)) != FORMAT_VERSION:
        kind = NEWER if version > FORMAT_VERSION else _EARLIER
        raise file_error(path, kind, f"format {version}, this one reads {FORMAT_VERSION}")
    described = field(header, "arrays", dict)
    if differing := members.keys() ^ {f"{name}.npy" for name in described}:
        raise ValueError(f"the member {min(differing)[:50]} is missing or unexpected")
    return header, {k: _read_array(archive, k, field(described, k, dict)) for k in described}


def _read_array(archive: zipfile.ZipFile, name: str, described: dict[str, Any]) -> Array:
    dtype, shape = field(described, "dtype", str), field(described, "shape", list)
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
    """Return the one NPY 1.0 header of such an array: reading compares it and need not parse."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()

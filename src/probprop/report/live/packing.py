"""Numbers and names as text that a page may hold: JSON, and one block of all arrays."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probprop._types import Array

_KINDS = {"f8": np.float64, "f4": np.float32, "i4": np.int32}


def packed(tree: Any) -> tuple[str, str]:
    r"""Return a tree of dicts, lists, texts, numbers and arrays as JSON, and its arrays as base64.

    In the JSON an array is ``{"array": [kind, start, length]}``, which says where its bytes begin
    in the block. There the first bytes of all its numbers come first, then the second ones: so
    they compress better.

    Parameters
    ----------
    tree : dict, list, str, float, int, bool, None or ndarray
        Arrays are flattened. Other numbers that are not finite become null.

    Returns
    -------
    text, block : str
        In neither is a ``<``: both may stand in a script element.

    Examples
    --------
    >>> text, block = packed({"name": "</script>", "weights": np.zeros((2, 3)), "gain": np.nan})
    >>> print(text)
    {"name":"\u003c/script>","weights":{"array":["f8",0,6]},"gain":null}
    >>> np.frombuffer(gzip.decompress(base64.b64decode(block))).shape
    (6,)
    """
    blocks: list[bytes] = []
    size = 0

    def plain(node: Any) -> Any:
        nonlocal size
        if isinstance(node, np.ndarray):
            kind = _kind(node)
            values = np.ascontiguousarray(node, _KINDS[kind]).ravel()
            start, data = size, _by_place(values)
            blocks.append(data)
            size += len(data)
            return {"array": [kind, start, values.size]}
        if isinstance(node, Mapping):
            return {str(key): plain(value) for key, value in node.items()}
        if isinstance(node, Sequence) and not isinstance(node, str):
            return [plain(value) for value in node]
        if isinstance(node, np.generic):
            node = node.item()
        return None if isinstance(node, float) and not np.isfinite(node) else node

    text = json.dumps(plain(tree), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c"), compressed(b"".join(blocks))


def compressed(data: bytes) -> str:
    """Return bytes as base64 of their gzip stream, which a browser can inflate."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _kind(array: Array) -> str:
    if array.dtype.kind in "iu":
        return "i4"
    return "f4" if array.dtype == np.float32 else "f8"


def _by_place(values: Array) -> bytes:
    """Return the bytes of an array, all first bytes first."""
    data: bytes = values.view(np.uint8).reshape(-1, values.itemsize).T.tobytes()
    return data

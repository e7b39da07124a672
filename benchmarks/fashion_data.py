"""Fashion-MNIST from its IDX files, and pictures that show no clothes.

The files come from the Debian package dataset-fashion-mnist or from the authors. Their folder is
``--folder``, else the environment variable ``PROBPROP_FASHION``, else the folder of the package.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.ndimage import zoom
from sklearn.datasets import load_digits

USUAL_FOLDER = Path("/usr/share/datasets/fashion-mnist")
SIDE = 28
_BYTES = 0x08  # IDX's code of unsigned bytes

Bytes = NDArray[np.uint8]


class Pictures(NamedTuple):
    """Pixels from 0 to 255, (n, 784), and what the pictures show, 0 to 9, (n,)."""

    X: Bytes
    y: Bytes


def folder_of(given: str | None) -> Path:
    """Return the folder in which to look for the files."""
    return Path(given or os.environ.get("PROBPROP_FASHION") or USUAL_FOLDER)


def load(folder: Path, part: str) -> Pictures:
    """Return the pictures of a part, "train" or "t10k".

    Raises
    ------
    FileNotFoundError
        With what to do about it.
    ValueError
        A file is not what it should be.
    """
    images = read_idx(_find(folder, f"{part}-images-idx3-ubyte"))
    labels = read_idx(_find(folder, f"{part}-labels-idx1-ubyte"))
    if images.shape != (len(labels), SIDE, SIDE):
        raise ValueError(
            f"{folder}: {part} has images of shape {images.shape} and {len(labels)} labels; "
            f"expected ({len(labels)}, {SIDE}, {SIDE})"
        )
    return Pictures(images.reshape(len(images), -1), labels)


def _find(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise FileNotFoundError(
        f"{folder} has no {name}[.gz]: install the Debian package dataset-fashion-mnist, or name "
        "the folder of the files with --folder or PROBPROP_FASHION"
    )


def read_idx(path: Path) -> Bytes:
    """Read an array of bytes in the IDX format, gzipped or not.

    Two zero bytes, the type, the number of axes, their lengths in four bytes each with the
    highest first, then the entries.
    """
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if content[:3] != bytes([0, 0, _BYTES]):
        raise ValueError(f"{path} is not an IDX file of unsigned bytes")
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4).tolist()
    entries = np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes)
    if entries.size != np.prod(shape):
        raise ValueError(f"{path} has {entries.size} entries, but its header says {shape}")
    return entries.reshape(shape)


def noise(n: int) -> Bytes:
    """Return n pictures whose pixels are uniform and independent, (n, 784)."""
    return RandomState(0).randint(256, size=(n, SIDE * SIDE)).astype(np.uint8)


def handwriting() -> Bytes:
    """Return scikit-learn's 1,797 digits, 8 by 8, drawn larger: (1797, 784)."""
    small = load_digits().images / 16.0
    large = zoom(small, (1.0, SIDE / 8, SIDE / 8), order=1)
    return np.rint(255.0 * large).reshape(len(large), -1).astype(np.uint8)

"""Finding, downloading, verifying and caching the files of the data sets.

A raw file is looked for in the folder ``PROBPROP_DATA``, then in the cache, then downloaded into
the cache. The cache is the user's (``pooch.os_cache``) unless ``PROBPROP_CACHE`` names a folder;
its subfolder ``arrays`` holds what was parsed. A written file appears under its name only
when it is complete and verified, so that processes need no lock: at worst two of them do the
same work.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from probprop._atomic import replacing
from probprop._types import FloatArray
from probprop_lab.datasets.errors import DataError, missing_extra
from probprop_lab.datasets.progress import DownloadBar
from probprop_lab.datasets.registry import Source

Arrays = tuple[FloatArray, FloatArray]  # X and y

TIMEOUT = 30.0
"""Seconds to wait for a server that sends nothing; a slow one that sends may take any time."""


def data_folder() -> Path | None:
    """Return the folder that ``PROBPROP_DATA`` names, or None where it is not set."""
    folder = os.environ.get("PROBPROP_DATA")
    if not folder:
        return None
    path = Path(folder).expanduser()
    if not path.is_dir():  # else a typing error would start a download
        raise DataError(f"PROBPROP_DATA is {folder}, which is not a folder: correct or unset it")
    return path


def cache_folder() -> Path:
    """Return the folder of downloaded files, which need not exist yet."""
    if folder := os.environ.get("PROBPROP_CACHE"):
        return Path(folder).expanduser()
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise missing_extra("pooch") from error
    return Path(pooch.os_cache("probprop"))


# ---- Raw files


def find_raw(source: Source) -> Path | None:
    """Return where the raw file is on this machine, or None; it is not verified."""
    folders = [folder for folder in (data_folder(), cache_folder()) if folder is not None]
    paths = [folder / source.file for folder in folders]
    return next((path for path in paths if path.is_file()), None)


def find_any(name: str, source: Source) -> Path | None:
    """Return the raw file, else the arrays that were parsed from it, else None; not verified."""
    path = find_raw(source)
    if path is None and source.sha256 is not None:
        arrays = _arrays_path(name, source.sha256)
        path = arrays if arrays.is_file() else None
    return path


def verify_raw(path: Path, source: Source) -> str:
    """Return the sha256 of a raw file; raise `DataError` if it differs from the source's."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unusable(source, f"{path} cannot be read ({error})") from error
    if source.sha256 not in (None, found):
        raise unusable(source, f"{path} is not used, {_differs(found, source)}. Delete it")
    return found


def download(source: Source) -> Path:
    """Download the raw file into the cache, verified, and return its path."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as temporary:
            got = Path(temporary) / "download"
            _get(source.address, got)
            with ExitStack() as stack, replacing(folder / source.file) as file:
                shutil.copyfileobj(_open_download(got, source.member, stack), file)
                file.flush()
                _verify_download(Path(file.name), source)
    except (DataError, MemoryError, ImportError):
        raise
    except Exception as error:  # requests, zipfile and zlib raise a dozen types
        reason = f"it could not be downloaded, {_reason(error)}"
        raise unusable(source, reason) from error
    return folder / source.file


def _get(address: str, path: Path) -> None:
    """Download whatever is at an address."""
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise missing_extra("pooch") from error

    with ExitStack() as stack:

        def close_at_the_end(response: Any, **_: Any) -> None:
            stack.callback(response.close)  # pooch leaves it open where reading fails

        hooks = {"response": close_at_the_end}
        bar = DownloadBar(address.rpartition("/")[2])
        stack.callback(bar.close)
        get = pooch.HTTPDownloader(bar, timeout=TIMEOUT, chunk_size=1 << 16, hooks=hooks)
        get(address, str(path), None)


def _open_download(path: Path, member: str | None, stack: ExitStack) -> IO[bytes]:
    """Open the file that was downloaded, or the member of the zip that it is."""
    file = stack.enter_context(path.open("rb"))
    if member is None:
        return file
    found = _open_member(stack.enter_context(zipfile.ZipFile(file)), member, stack)
    if found is None:
        raise ValueError(f"the zip has no {member}")
    return found


def _open_member(archive: zipfile.ZipFile, name: str, stack: ExitStack) -> IO[bytes] | None:
    """Open a member by its name, whichever folder of the zip, or zip in the zip, it is in."""
    for info in archive.infolist():
        if info.filename.rpartition("/")[2] == name:
            return stack.enter_context(archive.open(info))
    for info in archive.infolist():
        if info.filename.lower().endswith(".zip"):
            inner = zipfile.ZipFile(stack.enter_context(archive.open(info)))
            found = _open_member(stack.enter_context(inner), name, stack)
            if found is not None:
                return found
    return None


def _verify_download(path: Path, source: Source) -> None:
    if source.sha256 is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != source.sha256:
        raise unusable(source, f"what was downloaded is not used, {_differs(found, source)}")


def _reason(error: Exception) -> str:
    """Say what went wrong in fewer words than requests, whose errors quote its internals."""
    from requests import exceptions

    text = " ".join(str(error).split())
    if isinstance(error, exceptions.Timeout) or "timed out" in text:
        return f"the server sent nothing for {TIMEOUT:g} s"
    if "IncompleteRead" in text:
        return "the connection broke off"
    if isinstance(error, exceptions.ConnectionError):
        return "there is no connection to the server"
    return text or type(error).__name__


def unusable(source: Source, reason: str) -> DataError:
    """Return the error of a file that is missing or wrong: why, and how to get it by hand."""
    what = source.file
    if source.member is not None:
        renamed = "" if source.member == source.file else f" under the name {source.file}"
        what = f"{source.member} from the zip{renamed}"
    other = data_folder() or "a folder that PROBPROP_DATA names"
    return DataError(
        f"{source.file}: {reason}. "
        f"By hand: get {source.address} and put {what} into {cache_folder()} or {other}"
    )


def _differs(found: str, source: Source) -> str:
    return f"its sha256 is {found} instead of {source.sha256}"


# ---- Parsed arrays


def find_arrays(name: str, source: Source, sha256: str | None) -> Arrays | None:
    """Return the arrays cached for the raw file of this hash, or None.

    A file that is damaged or has unexpected content counts as missing.
    """
    if sha256 is None:
        return None
    try:
        with (
            _arrays_path(name, sha256).open("rb") as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            X, y = archive["X"], archive["y"]
        check_arrays(X, y, source)
    except MemoryError:
        raise
    except Exception:  # zipfile and NumPy raise a dozen types for damaged files
        return None
    return X, y


def keep_arrays(name: str, sha256: str, X: FloatArray, y: FloatArray) -> None:
    """Cache the arrays of the raw file of this hash, where the disk allows it."""
    path = _arrays_path(name, sha256)
    with suppress(OSError):  # a home that cannot be written costs time, not the data
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez(file, X=X, y=y)


def check_arrays(X: FloatArray, y: FloatArray, source: Source) -> None:
    """Raise ValueError if arrays differ from the source's."""
    shapes = (source.shape[0], len(source.feature_names)), source.shape[:1]
    if (X.shape, y.shape) != shapes or not X.dtype == y.dtype == np.float64:
        raise ValueError(f"it gives X {X.dtype}{X.shape} and y {y.dtype}{y.shape}, not {shapes}")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("it holds numbers that are not finite")
    if source.parsed_sha256 not in (None, array_hashes(X, y)):
        raise ValueError("it was parsed to other numbers than it should; please report that")


def array_hashes(X: FloatArray, y: FloatArray) -> tuple[str, str]:
    """Return the sha256 of X and of y as little-endian float64 in C order.

    Examples
    --------
    >>> import numpy as np
    >>> array_hashes(np.zeros((2, 1)), np.ones(2))[0][:16]
    '374708fff7719dd5'
    """
    first, second = (
        hashlib.sha256(np.ascontiguousarray(a, "<f8").reshape(-1).data).hexdigest() for a in (X, y)
    )
    return first, second


def _arrays_path(name: str, sha256: str) -> Path:
    return cache_folder() / "arrays" / f"{name}-{sha256}.npz"

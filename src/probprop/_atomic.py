"""Atomic files, and updates of a file by several processes."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows, which renames no file that is open, nor replaces one
    fcntl = None  # type: ignore[assignment]

_Path = str | os.PathLike[str]

_HELD = {errno.EACCES, errno.EDEADLK, errno.EAGAIN}  # a byte that another process has locked
_TEMPORARY = re.compile(r"\.probprop-[0-9a-f]{16}\.tmp")


@contextmanager
def replacing(path: _Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` once it is safely on the disk.

    Temporary files of killed processes are removed. If the folder cannot be
    flushed to the disk afterward, there is a RuntimeWarning: the file is in place and complete,
    but a power failure may undo that.
    """
    target = os.path.realpath(path)
    old: os.stat_result | None = None
    with suppress(FileNotFoundError):
        # Fails where an ordinary write does: a protected file, a directory, a loop of links.
        probe = os.open(target, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        old = os.fstat(probe)
        os.close(probe)
        if not stat.S_ISREG(old.st_mode):
            raise ValueError(f"{target} is not a regular file")
    folder = os.path.dirname(target)
    _remove_abandoned(folder)
    temporary = os.path.join(folder, f".probprop-{os.urandom(8).hex()}.tmp")
    try:
        with _new_file(temporary, 0o666 if old is None else old.st_mode & 0o666) as file:
            if old is not None:
                _give_to_owner_of(old, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked: otherwise it would look abandoned
                os.replace(temporary, target)
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException as error:  # Ctrl-C as well
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename, error.filename2 = os.fspath(path), None
        raise
    with suppress(OSError):  # not every system can flush a folder, and the file is in place
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def updating(path: _Path, waits: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Keep other processes from updating an existing file between reading and replacing it.

    Yields a function to call before the file is replaced: it raises ValueError where a process
    that does not wait for others has replaced the file in the meantime. `waits` is called once if
    another process has to finish first.
    """
    target = os.path.realpath(path)
    # On Windows, where the file must not be open when it is replaced, a second file is locked.
    locked = target if fcntl is not None else f"{target}.lock"
    descriptor, before = _hold(target, locked, waits)

    def check_unchanged() -> None:
        if not _is_at(before, target):
            raise ValueError(
                f"{os.fspath(path)} was replaced by another process during this update, which "
                "changed nothing: run it again"
            )

    try:
        yield check_unchanged
    finally:
        os.close(descriptor)  # gives up the lock, as the end of a killed process does
        if locked != target:
            with suppress(OSError):  # another process waits for it
                os.unlink(locked)


def _hold(target: str, locked: str, waits: Callable[[], None]) -> tuple[int, os.stat_result]:
    """Lock the file `locked`; return its descriptor, and which file is at `target`."""
    waited = False
    while True:
        before = os.stat(target)
        flags = os.O_RDONLY if locked == target else os.O_RDWR | os.O_CREAT
        descriptor = os.open(locked, flags | getattr(os, "O_NONBLOCK", 0))
        try:
            if not _lock(descriptor, wait=False):
                if not waited:
                    waits()
                waited = True
                _lock(descriptor, wait=True)
            if _is_at(os.fstat(descriptor), locked) and _is_at(before, target):
                return descriptor, before
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the one we waited for has put a new file there


def _is_at(file: os.stat_result, path: str) -> bool:
    """Whether a file is still the one that a path leads to."""
    try:
        return os.path.samestat(file, os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file; False where another process holds it.

    Where the file system has no locks this is True; `updating` still notices a file that was
    replaced.
    """
    if fcntl is None:
        return _lock_byte(descriptor, wait=wait)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:  # else a file system without locks
        return not isinstance(error, BlockingIOError)
    return True


def _lock_byte(descriptor: int, *, wait: bool) -> bool:
    """Lock the first byte of an open file, as Windows does; False if another process holds it."""
    msvcrt: Any = import_module("msvcrt")
    while True:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno not in _HELD:
                return True
            if not wait:
                return False  # LK_LOCK, which waits, gives up after ten seconds: try again
        else:
            return True


def _new_file(temporary: str, mode: int) -> IO[bytes]:
    """Create a file and lock it while it is written: one without a lock is abandoned."""
    while True:
        file = open(temporary, "xb", opener=lambda p, flags: os.open(p, flags, mode))  # noqa: SIM115
        _lock(file.fileno(), wait=True)
        if _is_at(os.fstat(file.fileno()), temporary):
            return file
        file.close()  # removed as abandoned between the two lines above


def _give_to_owner_of(old: os.stat_result, temporary: str) -> None:
    """Give a new file the owner, group and permissions of the old one, as far as one may."""
    new = os.stat(temporary)
    if hasattr(os, "chown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):  # only root gives files away; groups of one's own may do
            with suppress(PermissionError):
                os.chown(temporary, owner, old.st_gid)
                break
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _remove_abandoned(folder: str) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    if fcntl is None:  # files about to be renamed look the same
        return
    with suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                path = os.path.join(folder, name)
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        os.unlink(path)
                finally:
                    os.close(descriptor)

"""Files that are written whole or not at all, and updates that do not lose one another."""

from __future__ import annotations

import errno
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

_Path = str | os.PathLike[str]

# Systems that cannot flush a folder, and folders that may be written but not read.
_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.EISDIR}
_TEMPORARY = re.compile(r"\.probprop-[0-9a-f]{16}\.tmp")


@contextmanager
def replacing(path: _Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` once it is safely on the disk.

    Temporary files beside it that killed processes left are removed. If the folder cannot be
    flushed to the disk afterwards, there is a RuntimeWarning: the file is in place and complete,
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
            if os.name != "nt":  # while it is locked: else it could be taken for abandoned
                os.replace(temporary, target)
        if os.name == "nt":  # which renames no file that is open
            os.replace(temporary, target)
    except BaseException as error:  # Ctrl-C as well
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename, error.filename2 = os.fspath(path), None
        raise
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            warnings.warn(
                f"{os.fspath(path)} is written, but its folder could not be flushed to the disk "
                f"({error.strerror}): after a power failure the old file may be there instead, or "
                "none. Check the disk, and write it again.",
                RuntimeWarning,
                stacklevel=3,
            )


@contextmanager
def updating(path: _Path, waits: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Keep other processes from updating an existing file between reading and replacing it.

    Yields a function to call before the file is replaced: it raises ValueError where a process
    that does not wait for others has replaced the file in the meantime. `waits` is called once if
    another process has to finish first.
    """
    target = os.path.realpath(path)
    descriptor = _hold(target, waits)

    def check_unchanged() -> None:
        if not _is_at(descriptor, target):
            raise ValueError(
                f"{os.fspath(path)} was replaced by another process during this update, which "
                "changed nothing: run it again"
            )

    try:
        yield check_unchanged
    finally:
        os.close(descriptor)  # gives up the lock, as the end of a killed process does


def _hold(target: str, waits: Callable[[], None]) -> int:
    """Open and lock the file that is at `target`; return its descriptor."""
    waited = False
    while True:
        descriptor = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            if not _lock(descriptor, wait=False):
                if not waited:
                    waits()
                waited = True
                _lock(descriptor, wait=True)
            if _is_at(descriptor, target):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the one we waited for has put a new file there


def _is_at(descriptor: int, target: str) -> bool:
    """Whether an open file is still the one that its path leads to."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(target))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file; False where another process holds it.

    Where the system has no locks this is True; `updating` still notices a file that was replaced.
    """
    try:
        import fcntl
    except ImportError:  # Windows, which does not replace a file that is open
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:  # else a file system without locks
        return not isinstance(error, BlockingIOError)
    return True


def _new_file(temporary: str, mode: int) -> IO[bytes]:
    """Create a file and lock it while it is written: one without a lock is abandoned."""
    while True:
        file = open(temporary, "xb", opener=lambda p, flags: os.open(p, flags, mode))  # noqa: SIM115
        _lock(file.fileno(), wait=True)
        if _is_at(file.fileno(), temporary):
            return file
        file.close()  # taken for abandoned between the two lines above


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
    try:
        import fcntl
    except ImportError:  # without locks nothing tells them from those being written
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

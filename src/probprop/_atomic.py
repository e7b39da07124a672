"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
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

"""How much memory a fit may take, in the words that people use for it."""

from __future__ import annotations

import os
import re
from pathlib import Path

MEGABYTE = 10**6
RESERVED = 500 * MEGABYTE
"""What Python, its libraries and one chunk of a table take before a row is kept, as measured."""
LEAST = 700 * MEGABYTE
"""The least limit: what is above `RESERVED` is for rows."""

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_UNKNOWN = 8 * 10**9  # taken for the memory of a machine that does not tell
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def bytes_of(limit: int | float | str | None) -> int:
    """Return a limit in bytes; None is half of the memory there is.

    Parameters
    ----------
    limit : int, float, str or None
        A number is bytes. A text has a unit: "2GB", "1.5 GB", "800M", "4GiB"; K, M, G and T are
        powers of 1000, Ki, Mi, Gi and Ti of 1024.

    Examples
    --------
    >>> bytes_of("2GB"), bytes_of("1.5 GiB"), bytes_of("800m"), bytes_of(9e8)
    (2000000000, 1610612736, 800000000, 900000000)
    """
    if limit is None:
        return max(LEAST, memory_of_machine() // 2)
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?|)b?\s*", limit, re.IGNORECASE)
        if found is None:
            raise ValueError(
                f"the memory limit must be a number with a unit, such as 2GB or 800MB. Got "
                f"{limit!r} instead."
            )
        size = float(found[1]) * (_UNITS | _BINARY)[found[2].upper()]
    elif isinstance(limit, bool) or not isinstance(limit, int | float):
        raise TypeError(
            f"the memory limit must be an int or a str, such as '2GB', not {type(limit).__name__}."
        )
    else:
        size = limit
    if not LEAST <= size < 2**60:
        raise ValueError(
            f"the memory limit must be at least {in_words(LEAST)}: Python and its libraries take "
            f"most of that themselves. Got {limit!r} instead."
        )
    return int(size)


def in_words(n_bytes: float) -> str:
    """Return a size as people write it.

    Examples
    --------
    >>> in_words(2e9), in_words(512_300_000), in_words(20)
    ('2 GB', '512 MB', '20 bytes')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


def memory_of_machine() -> int:
    """Return the memory of this machine, or of the container, in bytes."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        found = _UNKNOWN
    for path in _CGROUPS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            found = min(found, int(text))
    return found

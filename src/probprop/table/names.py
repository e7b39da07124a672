"""The names of targets, as a list and as words."""

from __future__ import annotations

from collections.abc import Sequence


def target_names(target: str | Sequence[str]) -> list[str]:
    """Return the names of the targets as a list; a single target may be given as a str.

    Examples
    --------
    >>> target_names("price"), target_names(("heating", "cooling"))
    (['price'], ['heating', 'cooling'])
    """
    return [target] if isinstance(target, str) else list(target)


def in_words(names: Sequence[str]) -> str:
    """Join names as a sentence does.

    Examples
    --------
    >>> in_words(["a"]), in_words(["a", "b"]), in_words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

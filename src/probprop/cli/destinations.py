"""Outputs that would replace what the user needs: refused before the work."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from probprop.cli.output import check_destination


def check_destinations(
    outputs: Mapping[str, str | None], inputs: Mapping[str, str | Sequence[str]]
) -> None:
    """Refuse outputs that cannot be written, and those that are an input or one another.

    Parameters
    ----------
    outputs : mapping of str to str or None
        Path by option; None where there is no such output.
    inputs : mapping of str to str or sequence of str
        Path, or paths, by the name of the argument; ``-`` is standard input.
    """
    for option, path in outputs.items():
        check_destination(path, option)
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        for name, source in _each(inputs):
            if source != "-" and same_file(path, source):
                raise ValueError(
                    f"{option} {path} is the same file as {name} {source}, which would be "
                    "replaced: give another path"
                )
    for (option, path), (other, twin) in combinations(given.items(), 2):
        if same_file(path, twin):
            raise ValueError(
                f"{option} {path} and {other} {twin} are the same file: give two paths"
            )


def _each(inputs: Mapping[str, str | Sequence[str]]) -> Iterator[tuple[str, str]]:
    for name, given in inputs.items():
        for path in [given] if isinstance(given, str) else given:
            yield name, path


def check_replaces_model(path: str, option: str = "-o") -> None:
    """Refuse to put a model in the place of a file that is none; an empty file is no loss."""
    from probprop.io import MODEL, begins_as

    if os.path.isfile(path) and os.path.getsize(path) > 0 and not begins_as(path, MODEL):
        raise ValueError(
            f"{option} {path} exists and is no model file, and would be replaced by one: give "
            "another path, or remove it first"
        )


def same_file(path: str, other: str) -> bool:
    """Whether two paths lead to one file, through links too; it need not exist yet.

    Examples
    --------
    >>> same_file("a.csv", "./a.csv"), same_file("a.csv", "b.csv")
    (True, False)
    """
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)

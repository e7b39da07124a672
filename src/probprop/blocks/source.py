"""Rows that come block by block, twice: what every kind of source says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from probprop._types import Array
from probprop.inference.likelihoods import Likelihood

if TYPE_CHECKING:
    from probprop.table.encoding import Columns  # it needs pandas, which arrays do not


class Block(NamedTuple):
    """Rows with their targets, checked.

    Parameters
    ----------
    label : str
        What messages call it.
    X : ndarray of shape (n, n_columns)
        NaN where an entry is missing.
    y : ndarray of shape (n,) or (n, K)
        As they were given.
    """

    label: str
    X: Array
    y: Array


@dataclass(frozen=True, eq=False)
class Looked:
    """What the first look at all blocks has found.

    Parameters
    ----------
    sizes : list of (str, int)
        The label and the rows of each block.
    n_columns : int
        Of X.
    n_targets : int
        Columns of y, 1 where it has none.
    likelihood : Likelihood
        Of all targets.
    held : list of Block or None
        All of them, where they fit into memory and are there already.
    """

    sizes: list[tuple[str, int]]
    n_columns: int
    n_targets: int
    likelihood: Likelihood
    held: list[Block] | None = None

    @property
    def n(self) -> int:
        """All rows."""
        return sum(n for _, n in self.sizes)


class Source(Protocol):
    """Where rows come from."""

    columns: Columns | None
    """What the columns of files are; None before `look`, and of arrays."""

    def look(self, most: int) -> Looked:
        """Go through all blocks; they may be held where they take at most so many bytes."""

    def read(self) -> Iterator[Block]:
        """Go through them again."""

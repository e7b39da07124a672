"""Blocks of (X, y) that can be started again, each checked as the estimators check their data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import validate_data

from probprop._types import Array
from probprop.blocks.source import Block, Looked
from probprop.estimators.validation import check_labelled_data, check_regression_data
from probprop.inference.likelihoods import NOISE_TAILS, Likelihood, of_labels

if TYPE_CHECKING:
    from probprop.table.encoding import Columns

_SHAPE = "each block must be a pair (X, y) of arrays or frames with rows"


class ArrayBlocks:
    """What a user passed, as a source.

    Parameters
    ----------
    network : PBPRegressor or PBPClassifier
        Says what targets are, and remembers the features.
    blocks : iterable of (X, y), or callable that returns one
    """

    def __init__(self, network: Any, blocks: Any) -> None:
        self.network = network
        self.columns: Columns | None = None
        self._start = restarting(blocks)
        self._n_targets: tuple[int, ...] | None = None

    def look(self, most: int) -> Looked:
        """Check all blocks; hold them while they take at most so many bytes."""
        sizes, n_bytes = list[tuple[str, int]](), 0
        held: list[Block] | None = []
        labels = list[Array]()
        classes = is_classifier(self.network)
        for block in self.read():
            sizes.append((block.label, len(block.X)))
            n_bytes += 8 * (block.X.size + block.y.size)
            if n_bytes > most:
                held = None
            if held is not None:
                held.append(block)
            if classes:
                labels.append(np.unique(block.y) if block.y.ndim == 1 else block.y[:1])
        if not sizes:
            raise ValueError(f"there are no blocks: {_SHAPE}.")
        likelihood = self._likelihood(labels)
        n_columns = int(self.network.n_features_in_)
        n_targets = self._n_targets[0] if self._n_targets else 1
        return Looked(sizes, n_columns, n_targets, likelihood, held)

    def read(self) -> Iterator[Block]:
        """Yield the blocks, checked; the first of all says which features there are."""
        for i, given in enumerate(self._start()):
            label = f"block {i}"
            with _labelled(label):
                X, y = _pair(given)
                if not hasattr(self.network, "n_features_in_"):
                    validate_data(self.network, X, skip_check_array=True, reset=True)
                check = (
                    check_labelled_data if is_classifier(self.network) else check_regression_data
                )
                X, y = check(self.network, X, y, reset=False)
                shape = y.shape[1:]
                if self._n_targets not in (None, shape):
                    raise ValueError(
                        f"y has {shape or 'no'} columns, but those before it {self._n_targets}"
                    )
                self._n_targets = shape
            yield Block(label, X, y)

    def _likelihood(self, labels: list[Array]) -> Likelihood:
        network, several = self.network, self._n_targets
        if not is_classifier(network):
            n_targets = several[0] if several else 1
            prior = network.noise_shape, network.noise_rate
            return NOISE_TAILS[network.noise_tail](n_targets, *prior)
        if several:
            return of_labels(labels[0], None)
        unique_labels(*labels)  # refuses numbers in one block and text in another
        return of_labels(labels[0], np.concatenate(labels))


def restarting(blocks: Any) -> Callable[[], Iterator[Any]]:
    """Return what starts the blocks anew; refuse what can be gone through only once.

    Examples
    --------
    >>> start = restarting([1, 2])
    >>> list(start()), list(start())
    ([1, 2], [1, 2])
    """
    if callable(blocks):
        return lambda: iter(blocks())
    if not hasattr(blocks, "__iter__"):
        raise TypeError(
            "blocks must be an iterable of pairs (X, y), a function that returns one, or the path "
            f"of files, not {type(blocks).__name__}."
        )
    if iter(blocks) is blocks:
        raise TypeError(
            f"blocks is a {type(blocks).__name__}, which can be gone through only once, but the "
            "rows are read more than once: pass the function that makes it, without calling it, "
            "or a list, or an object whose __iter__ starts anew."
        )
    return lambda: iter(blocks)


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"{_SHAPE}, not {type(given).__name__}.")
    return given[0], given[1]


@contextmanager
def _labelled(label: str) -> Iterator[None]:
    """Put the number of a block before what is wrong with it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"{label}: {error}") from error

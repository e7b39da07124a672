"""Tables of any size as chunks: rows with known targets, a sample of them, sums of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from probprop.cli.console import Terminal
from probprop.cli.scores import Judged, judge, scores_of
from probprop.cli.tables import (
    note_file,
    note_left_out,
    note_weightless,
    with_targets,
    with_weights,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import Array
    from probprop.metrics.regression import Scores
    from probprop.table import TableModel

MOST_SAMPLED = 100_000
"""Rows on which calibration is judged, of tables that have more."""

_NOT_A_MEAN = ("calibration_error", "roc_auc", "average_precision")


def chunks_of(
    paths: Sequence[str], kinds: Mapping[str, str], na: Sequence[str] | None, *, whole: bool
) -> Iterator[DataFrame]:
    """Yield the rows of all files for a model, a chunk at a time; `whole` with other columns."""
    from probprop.table import iter_table
    from probprop.table.read import plan_chunks

    for path in paths:
        _, chunk_rows = plan_chunks(path)
        columns = None if whole else list(kinds)
        yield from iter_table(path, chunk_rows=chunk_rows, columns=columns, kinds=kinds, na=na)


def known_chunks(
    terminal: Terminal,
    model: TableModel,
    paths: Sequence[str],
    kinds: Mapping[str, str],
    *,
    judging: bool = False,
) -> Iterator[DataFrame]:
    """Yield the rows whose targets are known; say of which files, and how many were left out.

    Rows to judge a model on have the column of weights, if the files do; those of weight 0 are
    left out.
    """
    n_rows, n_known, n_weightless = 0, 0, 0
    source, whole = "", judging and model.weight_to_judge is not None
    kinds = {**kinds, str(model.weight_to_judge): "number"} if whole else kinds
    for read in chunks_of(paths, kinds, model.na, whole=whole):
        if n_rows == 0:
            note_file(terminal, read)
        source = str(read.attrs.get("source", "the table"))
        known = with_targets(read, model.targets, model, some=False)
        n_rows, n_known = n_rows + len(read), n_known + len(known)
        if whole:
            counted = with_weights(known, model)
            n_weightless += len(known) - len(counted)
            known = counted
        if len(known):
            yield known
    if n_known == 0:
        names = ", ".join(repr(target) for target in model.targets)
        raise ValueError(
            f"{source} has no row with a value of {names}: give rows whose target is known"
        )
    note_left_out(terminal, n_rows - n_known, model.targets)
    note_weightless(terminal, n_weightless)
    if n_known == n_weightless:
        raise ValueError(f"{source} has no row of a weight above 0: give rows that count")


class Sample:
    """Rows drawn at random from a stream, at most `MOST_SAMPLED` in the end."""

    def __init__(self) -> None:
        import numpy as np

        self._random = np.random.default_rng(0)
        self._kept: list[tuple[Any, DataFrame]] = []
        self._below, self._n = 1.0, 0

    def add(self, frame: DataFrame) -> None:
        """Take part of these rows."""
        keys = self._random.random(len(frame))
        self._keep(keys, frame)
        if self._n > 2 * MOST_SAMPLED:
            self._halve()

    def _keep(self, keys: Any, frame: DataFrame) -> None:
        some = keys < self._below
        self._kept.append((keys[some], frame if some.all() else frame[some]))
        self._n += int(some.sum())

    def _halve(self) -> None:
        """Keep those with the smallest keys."""
        import numpy as np

        every = np.concatenate([keys for keys, _ in self._kept])
        self._below = float(np.partition(every, MOST_SAMPLED)[MOST_SAMPLED])
        kept, self._kept, self._n = self._kept, [], 0
        for keys, frame in kept:
            self._keep(keys, frame)

    def rows(self) -> DataFrame:
        """Return the sample."""
        import pandas as pd

        if self._n > MOST_SAMPLED:
            self._halve()
        table = pd.concat([frame for _, frame in self._kept])
        table.attrs = dict(self._kept[0][1].attrs)
        return table


def judge_chunks(
    terminal: Terminal, model: TableModel, chunks: Iterator[DataFrame], text: str = "judging"
) -> tuple[list[Judged], DataFrame, int]:
    """Judge a model on rows that come in chunks.

    Returns
    -------
    judged : list of Judged
        The scores of all rows; what has no sum, calibration and the verdict, and the baseline are
        those of the sample.
    sample : DataFrame
    n : int
        All rows.
    """
    totals: list[_Total] = []
    sample, n = Sample(), 0
    with terminal.rows(text, None) as advance:
        for frame in chunks:
            y, scores = scores_of(model, frame)
            totals = totals or [_Total() for _ in scores]
            for total, column, found in zip(totals, y, scores, strict=True):
                total.add(found, column, frame.index + 1)
            sample.add(frame)
            n += len(frame)
            advance(len(frame))
    rows = sample.rows()
    judged = [
        Judged(
            total.scores() | {k: v for k, v in drawn.scores.items() if k in _NOT_A_MEAN},
            drawn.baseline,
            drawn.verdict,
            tuple(total.left_out),
        )
        for total, drawn in zip(totals, judge(model, rows), strict=True)
    ]
    return judged, rows, n


class _Total:
    """Scores of one target, summed over chunks of rows."""

    def __init__(self) -> None:
        self._chunks: list[tuple[int, int, dict[str, float]]] = []
        self._targets: list[Any] = []
        self.left_out: list[int] = []

    def add(self, found: Scores, y: Array, numbers: Any) -> None:
        """Add a chunk with its targets, (n,), and the numbers of its rows."""
        from probprop.inference.standardize import measure

        self._chunks.append((len(y), len(y) - len(found.without_density), found.values))
        self._targets.append(measure(y.reshape(-1, 1).astype(float)))
        self.left_out += [int(numbers[i]) for i in found.without_density]

    def scores(self) -> dict[str, float]:
        """Return the scores of all rows: means, but for the RMSE and R²."""
        import numpy as np

        from probprop.inference.standardize import marginal, merged

        n_rows, n_with_density, values = zip(*self._chunks, strict=True)
        means: dict[str, float] = {}
        for name in values[0]:
            weights = np.array(n_with_density if name == "log_likelihood" else n_rows, float)
            each = np.array([chunk[name] for chunk in values])[weights > 0.0]
            shares = weights[weights > 0.0] / max(1.0, weights.sum())
            if name == "rmse":
                means[name] = float(np.hypot.reduce(np.sqrt(shares) * each))
            else:
                means[name] = float(shares @ each) if len(each) else float("nan")
        if "r2" in means:  # not a mean over chunks
            [(_, std)] = marginal(merged(self._targets))
            with np.errstate(over="ignore"):
                ratio = np.float64(means["rmse"]) / std if std > 0.0 else np.float64("nan")
                means["r2"] = float(1.0 - ratio**2)
        return means

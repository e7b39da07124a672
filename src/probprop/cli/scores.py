"""How good a model is on a table, as the commands show it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from probprop.cli.console import Terminal
from probprop.judged import LABELS, Judged, judge_classes, judge_values, show

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.table import TableModel

_NAMED = 10  # rows that are named in JSON


def judge(
    model: TableModel, frames: Iterable[DataFrame], predictive: Any = None
) -> tuple[list[Judged], int]:
    """Judge the predictions of each target on rows that come in one frame or more, and count them.

    `predictive` are the predictions of one frame, such as out-of-fold ones; None: the model
    predicts the rows, with the noise of their weights. What is kept of a row are six numbers for
    each target, or its probabilities.
    """
    import numpy as np

    from probprop.metrics.regression import Pointwise, pointwise

    rows: list[Any] = []
    numbers: list[Any] = []
    for frame in frames:
        y, predicted = model.observed(frame), predictive
        if predictive is None:
            weights = model.weights_to_judge(frame)
            options: Any = {} if weights is None else {"sample_weight": weights}
            predicted = model.estimator.predict_distribution(model.encode(frame), **options)
        numbers.append(frame.index + 1)
        if model.classes is not None:
            rows.append([(model.classes.searchsorted(y), predicted.log_proba)])
        else:
            columns = zip(y.reshape(len(y), -1).T, predicted.targets(), strict=True)
            rows.append([pointwise(*each) for each in columns])
    every = np.concatenate(numbers)
    of_targets = zip(*rows, strict=True)
    joined = [[np.concatenate(c) for c in zip(*parts, strict=True)] for parts in of_targets]
    if model.classes is not None:
        [(index, log_proba)] = joined
        return [judge_classes(model.classes, index, log_proba)], len(every)
    pairs = model.baseline or [None] * len(joined)
    each = zip(joined, pairs, strict=True)
    return [judge_values(Pointwise(*at), pair, every) for at, pair in each], len(every)


def as_json(judged: Judged) -> dict[str, Any]:
    """Return the scores, the baseline, the rows left out and the verdict, in values of JSON."""
    baseline = None if judged.baseline is None else _finite(judged.baseline)
    n_out, first = len(judged.left_out), list(judged.left_out[:_NAMED])
    left_out = {"log_likelihood": {"n": n_out, "first_rows": first}} if n_out else {}
    return {
        **_finite(judged.scores),
        "baseline": baseline,
        "left_out": left_out,
        **({} if judged.positive is None else {"positive_class": judged.positive}),
        "verdict": judged.verdict.as_dict(),
    }


def to_keep(
    targets: Sequence[str], judged: Sequence[Judged], n_samples: int, *, out_of_fold: bool
) -> dict[str, Any]:
    """Return the scores that a fit reported, as `TableModel` and its file keep them."""
    each = (_finite(one.scores) for one in judged)
    return {
        "measured_on": "out-of-fold" if out_of_fold else "held-out",
        "n_samples": n_samples,
        "targets": dict(zip(targets, each, strict=True)),
    }


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {k: v if math.isfinite(v) else None for k, v in scores.items()}


def score_table(
    targets: Sequence[str], judged: Sequence[Judged]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the scores: for each target the score and the baseline.

    >>> from probprop.metrics.verdict import Intervals, Scale, Verdict
    >>> found = Verdict(Intervals(9, 0.5, True, 0.5, 0.6, Scale(1.0, 0.2)), ())
    >>> score_table(["price"], [Judged({"rmse": 0.5}, {"rmse": 1.25}, found)])
    (['measure', 'value', 'baseline'], [['RMSE', '0.5', '1.25']])
    """
    header = ["measure", "value", "baseline"]
    if len(targets) > 1:
        header = ["measure", *(k for name in targets for k in (name, f"{name}: baseline"))]
    rows = [
        [
            _label(k, judged[0]),
            *(
                "–" if found is None else show(k, found[k])
                for one in judged
                for found in (one.scores, one.baseline)
            ),
        ]
        for k in judged[0].scores
    ]
    return header, rows


def _label(name: str, judged: Judged) -> str:
    """Name a measure; with two classes, the class that a curve is about."""
    of_class = judged.positive is not None and name in ("roc_auc", "average_precision")
    return f"{LABELS[name]} ({judged.positive})" if of_class else LABELS[name]


def show_scores(terminal: Terminal, model: TableModel, judged: Sequence[Judged]) -> None:
    """Print the scores on standard output, and the rows left out and the verdicts beside it."""
    from probprop.metrics.regression import without_density_in_words

    terminal.table(*score_table(model.targets, judged))
    for target, one in zip(model.targets, judged, strict=True):
        name = f"{target}: " if len(judged) > 1 else ""
        if one.left_out:
            terminal.note(f"{name}{without_density_in_words(one.left_out)}")
        terminal.say(f"{name}{one.verdict}")

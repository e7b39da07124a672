"""How good a model is on a table, as the commands show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probprop.cli.console import Terminal

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import Array, FloatArray
    from probprop.metrics.regression import Scores
    from probprop.metrics.verdict import ClassVerdict, Verdict
    from probprop.table import TableModel

_NAMED = 10  # rows that are named in JSON

LABELS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "log_likelihood": "log-likelihood",
    "crps": "CRPS",
    "coverage_50": "inside 50 % interval",
    "coverage_80": "inside 80 % interval",
    "coverage_90": "inside 90 % interval",
    "coverage_95": "inside 95 % interval",
    "accuracy": "accuracy",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "sharpness": "mean predicted std",
}


@dataclass(frozen=True)
class Judged:
    """How good the predictions of one target are.

    The baseline predicts without features: the marginal mean and standard deviation of the training
    target, or the class shares of these rows; None if that is not known. The log-likelihood leaves
    out the rows whose target has density 0.
    """

    scores: dict[str, float]  # every metric
    baseline: dict[str, float] | None
    verdict: Verdict | ClassVerdict  # of error bars, or of probabilities
    left_out: tuple[int, ...] = ()  # row numbers
    positive: str | None = None  # the rarer of two classes, whose average precision it is


def judge(model: TableModel, frame: DataFrame, predictive: Any = None) -> list[Judged]:
    """Judge the predictions of each target on the rows of a frame that holds them.

    `predictive` are the predictions, such as out-of-fold ones; None: the model predicts the rows,
    with the noise of their weights.
    """
    from probprop.metrics.classes import class_baseline, class_summary, rarer_class
    from probprop.metrics.verdict import class_verdict, verdict

    y = model.observed(frame)
    if predictive is None:
        predictive = _predictive(model, model.encode(frame), model.weights_to_judge(frame))
    if (classes := model.classes) is not None:
        index, proba = classes.searchsorted(y), predictive.proba
        scores = class_summary(index, predictive)
        found = class_verdict(int((proba.argmax(axis=1) == index).sum()), proba.max(axis=1))
        positive = str(classes[rarer_class(index)]) if len(classes) == 2 else None
        return [Judged(scores, class_baseline(index, len(classes)), found, positive=positive)]
    numbers = frame.index + 1
    each = zip(_of_targets(predictive, y), baselines_of(model, y), strict=True)
    return [
        Judged(
            found.values,
            baseline,
            verdict(column, one),
            tuple(int(numbers[i]) for i in found.without_density),
        )
        for (column, one, found), baseline in each
    ]


def baselines_of(model: TableModel, y: Array) -> list[dict[str, float] | None]:
    """Return what each target scores with its marginal mean and standard deviation."""
    from probprop.metrics.regression import baseline_summary

    columns = _columns(y)
    if not model.baseline:
        return [None for _ in columns]
    pairs = zip(columns, model.baseline, strict=True)
    return [baseline_summary(column, mean, std) for column, (mean, std) in pairs]


def _predictive(model: TableModel, X: Array, weights: FloatArray | None) -> Any:
    options: Any = {} if weights is None else {"sample_weight": weights}
    return model.estimator.predict_distribution(X, **options)


def scores_of(model: TableModel, frame: DataFrame) -> tuple[Array, list[Scores]]:
    """Return targets, (n_targets, n), and every metric of each, on the rows of a frame."""
    from probprop.metrics.classes import class_summary
    from probprop.metrics.regression import Scores

    X, y = model.split(frame)
    predictive = _predictive(model, X, model.weights_to_judge(frame))
    if model.classes is not None:
        index = model.classes.searchsorted(y)
        return _columns(index), [Scores(class_summary(index, predictive), index[:0])]
    return _columns(y), [found for _, _, found in _of_targets(predictive, y)]


def _of_targets(predictive: Any, y: Array) -> list[tuple[Array, Any, Scores]]:
    """Return observed and predicted values of each target, and their scores."""
    from probprop.metrics.regression import scores

    each = zip(_columns(y), predictive.targets(), strict=True)
    return [(column, one, scores(column, one)) for column, one in each]


def _columns(y: Array) -> Array:
    return y.reshape(len(y), -1).T


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
    >>> found = Verdict(Intervals(None, 9, 0.5, None, None, Scale(1.0, 0.2)), ())
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


def show(name: str, value: float) -> str:
    """Write a score as a reader expects it.

    >>> show("rmse", 53.4159), show("rmse", 21987.6), show("coverage_95", 0.955)
    ('53.42', '21,988', '95.5 %')
    >>> show("r2", 0.98765), show("r2", -1e-9), show("r2", float("nan"))
    ('0.9877', '0', '–')
    """
    if not math.isfinite(value):
        return "–"
    if name == "r2":
        value = round(value, 4) + 0.0  # no -0
    if name.startswith("coverage") or name in ("accuracy", "calibration_error"):
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"

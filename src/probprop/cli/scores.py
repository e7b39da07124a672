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
    from probprop.metrics.class_verdict import ClassVerdict
    from probprop.metrics.verdict import Verdict
    from probprop.table import TableModel

LABELS = {
    "rmse": "RMSE",
    "mae": "MAE",
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
    "sharpness": "mean predicted std",
}


@dataclass(frozen=True)
class Judged:
    """How good the predictions of one target are.

    Parameters
    ----------
    scores : dict
        Every metric.
    alone : dict or None
        The same without features: of the mean, or of the shares of the classes, alone.
    verdict : Verdict or ClassVerdict
        Whether the error bars, or the probabilities, are honest.
    """

    scores: dict[str, float]
    alone: dict[str, float] | None
    verdict: Verdict | ClassVerdict


def judge(model: TableModel, frame: DataFrame) -> list[Judged]:
    """Judge the predictions of each target on the rows of a frame that holds them."""
    return judge_rows(model, *model.split(frame), model.weights_to_judge(frame))


def judge_rows(
    model: TableModel, X: Array, y: Array, weights: FloatArray | None = None
) -> list[Judged]:
    """Judge the predictions of each target on encoded rows, (n, n_encoded), with their targets.

    Rows have the noise of their weights, (n,); None is the mean weight.
    """
    from probprop.metrics.class_verdict import class_verdict
    from probprop.metrics.verdict import verdict

    predictive = _predictive(model, X, weights)
    scores, alone = _scores(model, predictive, y), _alone(model, y)
    if model.classes is not None:
        index, proba = model.classes.searchsorted(y), predictive.proba
        found = class_verdict(int((proba.argmax(axis=1) == index).sum()), proba.max(axis=1))
        return [Judged(scores[0], alone[0], found)]
    each = zip(scores, alone, _columns(y), predictive.targets(), strict=True)
    return [Judged(score, without, verdict(column, one)) for score, without, column, one in each]


def scores_of(model: TableModel, frame: DataFrame) -> list[dict[str, float]]:
    """Return every metric of each target on the rows of a frame."""
    X, y = model.split(frame)
    return _scores(model, _predictive(model, X, model.weights_to_judge(frame)), y)


def _predictive(model: TableModel, X: Array, weights: FloatArray | None) -> Any:
    options: Any = {} if weights is None else {"sample_weight": weights}
    return model.estimator.predict_distribution(X, **options)


def _scores(model: TableModel, predictive: Any, y: Array) -> list[dict[str, float]]:
    from probprop import metrics
    from probprop.metrics.classes import class_summary

    if model.classes is not None:
        return [class_summary(model.classes.searchsorted(y), predictive)]
    each = zip(_columns(y), predictive.targets(), strict=True)
    return [metrics.summary(column, one) for column, one in each]


def _alone(model: TableModel, y: Array) -> list[dict[str, float] | None]:
    """Return what each target would score without features."""
    from probprop.metrics.alone import mean_alone, shares_alone

    if model.classes is not None:
        return [shares_alone(model.classes.searchsorted(y), len(model.classes))]
    return [mean_alone(column) for column in _columns(y)]


def _columns(y: Array) -> Array:
    return y.reshape(len(y), -1).T


def as_json(judged: Judged) -> dict[str, Any]:
    """Return the scores, those without features, and the verdict, in values of JSON."""
    alone = None if judged.alone is None else _finite(judged.alone)
    return {**_finite(judged.scores), "alone": alone, "verdict": judged.verdict.as_dict()}


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    return {k: v if math.isfinite(v) else None for k, v in scores.items()}


def score_table(
    targets: Sequence[str], judged: Sequence[Judged], *, of_classes: bool
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the scores: for each target, and beside it without features.

    Examples
    --------
    >>> from probprop.metrics.verdict import Honesty, Verdict
    >>> honest = Verdict(Honesty(None, 9, 0.5, None, None), ())
    >>> score_table(["price"], [Judged({"rmse": 0.5}, {"rmse": 1.25}, honest)], of_classes=False)
    (['measure', 'value', 'mean alone'], [['RMSE', '0.5', '1.25']])
    """
    alone = "shares alone" if of_classes else "mean alone"
    header = ["measure", "value", alone]
    if len(targets) > 1:
        header = ["measure", *(k for name in targets for k in (name, f"{name}: {alone}"))]
    rows = [
        [
            LABELS[k],
            *(
                "–" if found is None else show(k, found[k])
                for one in judged
                for found in (one.scores, one.alone)
            ),
        ]
        for k in judged[0].scores
    ]
    return header, rows


def show_scores(terminal: Terminal, model: TableModel, judged: Sequence[Judged]) -> None:
    """Print the scores on standard output, and the verdicts beside it."""
    terminal.table(*score_table(model.targets, judged, of_classes=model.classes is not None))
    for target, one in zip(model.targets, judged, strict=True):
        terminal.say(f"{target}: {one.verdict}" if len(judged) > 1 else str(one.verdict))


def show(name: str, value: float) -> str:
    """Write a score as a reader expects it.

    Examples
    --------
    >>> show("rmse", 53.4159), show("rmse", 21987.6), show("coverage_95", 0.955)
    ('53.42', '21,988', '95.5 %')
    """
    if name.startswith("coverage") or name in ("accuracy", "calibration_error"):
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"

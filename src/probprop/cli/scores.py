"""How good a model is on a table, as the commands show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from probprop.cli.output import naming
from probprop.table.names import in_words

if TYPE_CHECKING:
    from pandas import DataFrame

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


def scores(model: TableModel, frame: DataFrame) -> list[dict[str, float]]:
    """Return every metric of each target on the rows of a frame that holds them."""
    from probprop import metrics
    from probprop.metrics.classes import class_summary

    X, y = model.split(frame)
    predictive: Any = model.estimator.predict_distribution(X)
    if model.classes is not None:
        return [class_summary(model.classes.searchsorted(y), predictive)]
    columns = y.reshape(len(y), -1).T
    each = zip(columns, predictive.targets(), strict=True)
    return [metrics.summary(column, one) for column, one in each]


def score_table(
    targets: Sequence[str], found: Sequence[dict[str, float]]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the scores, with a column per target.

    Examples
    --------
    >>> score_table(["heating", "cooling"], [{"rmse": 0.5}, {"rmse": 1.25}])
    (['measure', 'heating', 'cooling'], [['RMSE', '0.5', '1.25']])
    """
    header = ["measure", *(targets if len(targets) > 1 else ["value"])]
    return header, [[LABELS[k], *(show(k, one[k]) for one in found)] for k in found[0]]


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


def write_model_report(
    path: str, model: TableModel, frame: DataFrame, *, held_out: bool | None
) -> None:
    """Write the HTML report of a model on the rows of a frame."""
    from probprop.report import classification_sections, regression_sections, write_report

    X, y = model.split(frame)
    known: Any = {"feature_names": model.encoded_names, "target": model.target}
    if model.classes is None:
        sections = regression_sections(model.estimator, X, y, **known, held_out=held_out)
    else:
        numbers = frame.index + 1  # rows of the file
        sections = classification_sections(
            model.estimator, X, y, **known, held_out=held_out, row_numbers=numbers
        )
    with naming(path):
        write_report(path, f"Predicting {in_words(model.targets)}", sections)

"""The sections of a report on a fitted classifier: how good it is, how sure, and what it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from probprop import plot
from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.metrics.baseline import class_baseline
from probprop.metrics.classes import class_summary
from probprop.metrics.verdict import class_verdict
from probprop.report.columns import rows_of
from probprop.report.cross_validation import cross_validation_sections
from probprop.report.dependence import depending
from probprop.report.document import Section
from probprop.report.facts import model_facts, number
from probprop.report.parts import (
    SCORE_HEADER,
    check_rows,
    percent,
    picture,
    training_section,
    weights_section,
)
from probprop.report.rows import uncertain_section
from probprop.table.encoding import Encoder


def classification_sections(
    model: PBPClassifier | PBPEnsemble | PBPClassifierCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_names: Sequence[str],
    target: str,
    held_out: bool | None,
    row_numbers: Sequence[int] | None = None,
    table: pd.DataFrame | None = None,
    encoder: Encoder | None = None,
) -> list[Section]:
    """Judge a fitted classifier on rows whose classes are known.

    Parameters
    ----------
    model : PBPClassifier, PBPEnsemble or PBPClassifierCV
        Fitted on classes, not on several labels.
    X : array-like of shape (n, n_features)
        The numbers the model takes, after any encoding.
    y : array-like of shape (n,)
        Observed classes, all of them in ``model.classes_``.
    feature_names : sequence of str
        One per column of X.
    target : str
        Name of the target.
    held_out : bool or None
        Whether the rows were kept from the model when it was fitted; None where that is not
        known. The report says so.
    row_numbers : sequence of int, default=None
        What to call the rows; None counts them from 1.
    table : DataFrame of shape (n, n_columns), default=None
        The table of which X was made: its columns have panels and cells. None: X is the table.
    encoder : Encoder, default=None
        How X was made of `table`, such as ``encoder`` of a `TableModel`.

    Returns
    -------
    list of Section
        The numbers that matter, reliability, confusion matrix, for two classes the ROC curve,
        the least certain rows, which columns matter, what the predictions depend on, training,
        weights, facts.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from probprop import PBPClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = PBPClassifier(n_epochs=5, random_state=0).fit(X[::2], y[::2])
    >>> sections = classification_sections(
    ...     model, X[1::2], y[1::2], feature_names=X.columns, target="grower", held_out=True
    ... )
    >>> sections[0].title
    'How good the predictions are'
    """
    check_is_fitted(model)
    if model.multilabel_:
        raise ValueError("The report is on classes. Got a model of several labels instead.")
    encoded, names = check_rows(X, y, feature_names)
    rows = rows_of(encoded, names, row_numbers, table, encoder)
    observed = np.asarray(y)
    if not np.isin(observed, model.classes_).all():
        raise ValueError("y must hold classes of the model only. Leave out the other rows.")
    index = np.searchsorted(model.classes_, observed)
    with warnings.catch_warnings():  # the names of the columns are given apart from X
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictive = cast(ClassMixture, model.predict_distribution(encoded))
    [columns] = depending(model, rows, observed, [target], held_out)
    return [
        _quality(index, predictive, model.classes_, held_out),
        *_pictures(index, predictive.proba, model.classes_),
        uncertain_section(index, predictive, model.classes_, rows, columns.names),
        *columns.sections,
        training_section(model, target),
        *cross_validation_sections(model, target),
        weights_section(model),
        Section("The model", table=([], model_facts(model, names, target))),
    ]


# ---- Quality


def _quality(
    index: Array,
    predictive: ClassMixture,
    classes: Array,
    held_out: bool | None,
) -> Section:
    """The numbers that matter, in two paragraphs and a small table."""
    scores, baseline = class_summary(index, predictive), class_baseline(index, len(classes))
    proba, n = predictive.proba, len(index)
    n_right = round(scores["accuracy"] * n)
    shares = np.bincount(index, minlength=len(classes)) / n
    kind = {True: "held-out ", False: "training ", None: ""}[held_out]
    rows = f"{n:,} {kind}row" + ("" if n == 1 else "s")
    text = (
        f"The most probable class is right in {n_right:,} of {rows} "
        f"({percent(scores['accuracy'])}). Always naming the most frequent one, "
        f"{classes[shares.argmax()]}, would be right in {percent(shares.max())}."
    )
    text += {
        True: " The model had not seen these rows.",
        False: " The model was fitted on these rows; on new ones expect more errors.",
        None: "",
    }[held_out]
    text += f"\n\n{class_verdict(n_right, proba.max(axis=1))}"
    several = "Mean over the classes, each against all others"
    curve = f"For {classes[1]}" if len(classes) == 2 else several
    measures: list[tuple[str, str, Callable[[float], str], str]] = [
        (
            "Accuracy",
            "accuracy",
            percent,
            "Share of the rows whose most probable class is right.",
        ),
        (
            "Log-loss",
            "log_loss",
            number,
            "Mean negative log of the probability of what was observed. Lower is better: it "
            "rewards right predictions and honest probabilities.",
        ),
        (
            "Brier score",
            "brier",
            number,
            "Mean squared distance of the probabilities from what was observed. Lower is better.",
        ),
        (
            "Calibration error",
            "calibration_error",
            percent,
            "Mean distance between the probability of the predicted class and the share that is "
            "right. 0 % is ideal; with few rows chance alone keeps it above.",
        ),
        (
            "ROC-AUC",
            "roc_auc",
            number,
            f"Area under the ROC curve. {curve}. Higher is better; 0.5 is chance.",
        ),
        (
            "Average precision",
            "average_precision",
            number,
            f"Area under the precision-recall curve. {curve}. Higher is better.",
        ),
    ]
    table = [
        [label, show(scores[key]), show(baseline[key]), words]
        for label, key, show, words in measures
        if not np.isnan(scores[key])  # a single class has no curve
    ]
    text += "\n\nBaseline: the same score without features, with the shares of the classes in "
    text += "these rows as probabilities."
    measure, value, words = SCORE_HEADER
    header = [measure, value, "Baseline", words]
    return Section("How good the predictions are", text, (header, table))


# ---- Pictures


def _pictures(index: Array, proba: FloatArray, classes: Array) -> list[Section]:
    sections = [
        Section(
            "Reliability",
            "How often the predicted class is right, against the probability it was given, in bins "
            "of a tenth; a larger dot is more rows. On the diagonal the probabilities are honest; "
            "below it too sure, above it too cautious. The bars are where chance leaves a "
            "calibrated model.",
            figures=[
                picture(
                    lambda ax: plot.reliability(index, proba, ax=ax),
                    "Share of right predictions against their probability",
                )
            ],
        ),
        Section(
            "Confusion matrix",
            "Rows of each observed class, by the class predicted; the darker, the larger the share "
            "of the observed class. Off the diagonal are the errors.",
            figures=[
                picture(
                    lambda ax: plot.confusion_matrix(index, proba, classes.tolist(), ax=ax),
                    "Confusion matrix: observed against predicted class",
                )
            ],
        ),
    ]
    if len(classes) == 2 and len(np.unique(index)) == 2:
        name = str(classes[1])
        sections.append(
            Section(
                "Threshold (ROC curve)",
                f"Rows whose probability of {name} is above a threshold are taken for it. Upwards "
                "is the share of its rows that this finds, to the right the share of other rows "
                "taken wrongly; the curve is all thresholds. The area under it is the probability "
                "that a row of this class is ranked above one of the other.",
                figures=[
                    picture(
                        lambda ax: plot.roc_curve(index, proba, name=name, ax=ax),
                        f"ROC curve of {name}",
                    )
                ],
            )
        )
    return sections

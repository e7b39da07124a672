"""The sections of a report on a fitted classifier: how good it is, how sure, and what it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr
from sklearn.utils.validation import check_is_fitted

from probprop import plot
from probprop._types import Array, FloatArray
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.metrics.classes import class_summary
from probprop.metrics.verdict import class_verdict
from probprop.predictive.protocol import ClassDistribution
from probprop.report.cross_validation import cross_validation_sections
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

_LEAST_CERTAIN = 10  # rows shown


def classification_sections(
    model: PBPClassifier | PBPEnsemble | PBPClassifierCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_names: Sequence[str],
    target: str,
    held_out: bool | None,
    row_numbers: Sequence[int] | None = None,
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

    Returns
    -------
    list of Section
        The numbers that matter, reliability, confusion matrix, for two classes the ROC curve,
        training, weights, the least
        certain rows, facts.

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
    rows, names = check_rows(X, y, feature_names)
    observed = np.asarray(y)
    if not np.isin(observed, model.classes_).all():
        raise ValueError("y must hold classes of the model only. Leave out the other rows.")
    index = np.searchsorted(model.classes_, observed)
    numbers = np.arange(1, len(rows) + 1) if row_numbers is None else np.asarray(row_numbers)
    with warnings.catch_warnings():  # the names of the columns are given apart from X
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictive = cast(ClassDistribution, model.predict_distribution(rows))
    uncertain = np.argsort(-predictive.entropy, kind="stable")[:_LEAST_CERTAIN]
    return [
        _quality(index, predictive, model.classes_, held_out),
        *_pictures(index, predictive.proba, model.classes_),
        training_section(model, target),
        *cross_validation_sections(model, target),
        weights_section(model),
        _uncertain(numbers[uncertain], index[uncertain], predictive[uncertain], model.classes_),
        Section("The model", table=([], model_facts(model, names, target))),
    ]


# ---- Quality


def _quality(
    index: Array,
    predictive: ClassDistribution,
    classes: Array,
    held_out: bool | None,
) -> Section:
    """The numbers that matter, in two paragraphs and a small table."""
    scores, proba, n = class_summary(index, predictive), predictive.proba, len(index)
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
    text += "\n\n" + class_verdict(n_right, proba.max(axis=1))
    table = [
        [
            "Accuracy",
            percent(scores["accuracy"]),
            "Share of the rows whose most probable class is right; without features "
            f"{percent(shares.max())}.",
        ],
        [
            "Log-loss",
            number(scores["log_loss"]),
            "Mean negative log of the probability of what was observed. Lower is better: it "
            "rewards right predictions and honest probabilities. Without features it is "
            f"{number(float(entr(shares).sum()))}.",
        ],
        [
            "Brier score",
            number(scores["brier"]),
            "Mean squared distance of the probabilities from what was observed. Lower is better; "
            f"without features {number(float(1.0 - (shares**2).sum()))}.",
        ],
        [
            "Calibration error",
            percent(scores["calibration_error"]),
            "Mean distance between the probability of the predicted class and the share that is "
            "right. 0 % is ideal; with few rows chance alone keeps it above.",
        ],
    ]
    text += "\n\nWithout features: what the shares of the classes alone would give."
    return Section("How good the predictions are", text, (SCORE_HEADER, table))


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


# ---- Rows


def _uncertain(
    row_numbers: Array, index: Array, predictive: ClassDistribution, classes: Array
) -> Section:
    """The rows with the least certain class, and how much of that more data could settle."""
    guessed = predictive.proba.argmax(axis=1)
    table = [
        [
            str(row_numbers[i]),
            str(classes[index[i]]),
            f"{classes[guessed[i]]}, {percent(float(predictive.proba[i, guessed[i]]))}",
            number(float(predictive.entropy[i])),
            percent(float(predictive.entropy_model[i] / max(predictive.entropy[i], 1e-300))),
        ]
        for i in range(len(index))
    ]
    return Section(
        "The least certain rows",
        "Rows of the largest entropy, in nats: 0 is certain, "
        f"{number(math.log(len(classes)))} all classes alike. The last column is the part of it "
        "that more data could remove; the rest is classes that overlap.",
        (["Row", "Observed", "Predicted", "Entropy", "Not known"], table),
    )

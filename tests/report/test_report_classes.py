"""The report on a classifier, and its pictures."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

pytest.importorskip("jinja2", reason="the report needs the extra cli")
pytest.importorskip("matplotlib", reason="the report needs the extra cli")

import matplotlib.pyplot as plt

from probprop import PBPClassifier, plot
from probprop.report import render
from report_sections import sections_of


@cache
def fitted(n_classes: int) -> tuple:
    X, y = (load_breast_cancer if n_classes == 2 else load_wine)(return_X_y=True)
    model = PBPClassifier((8,), n_epochs=5, random_state=0)
    return model.fit(X[::2], y[::2]), X[1::2], y[1::2]


@cache
def sections(n_classes: int, held_out: bool | None = True, first_row: int = 1) -> dict:
    model, X, y = fitted(n_classes)
    names = [f"f{i}" for i in range(X.shape[1])]
    options = {"feature_names": names, "target": "kind", "held_out": held_out}
    options["first_row"] = first_row
    return {s.title: s for s in sections_of(model, X, y, **options)}


@cache
def of_one_class() -> list:
    model, X, y = fitted(2)
    options = {"feature_names": range(X.shape[1]), "target": "kind", "held_out": None}
    return sections_of(model, X[y == 1], y[y == 1], **options)


def test_the_numbers_match_the_rows():
    model, X, y = fitted(2)
    made = sections(2)
    quality = made["How good the predictions are"]
    values = {row[0]: row[1] for row in quality.table[1]}
    assert values["Accuracy"] == f"{100 * model.score(X, y):.1f} %"
    loss = -np.mean(model.predict_log_proba(X)[np.arange(len(y)), y])
    assert float(values["Log-loss"]) == pytest.approx(loss, rel=1e-3)
    assert f" of {len(y)} test samples (" in quality.text
    assert f"{100 * max(y.mean(), 1 - y.mean()):.1f} %" in quality.text
    shares = np.bincount(y) / len(y)
    entropy = -(shares * np.log(shares)).sum()
    assert f"{entropy:.4f}" in quality.table[1][1][2]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_areas_under_the_curves(n_classes):
    model, X, y = fitted(n_classes)
    table = sections(n_classes)["How good the predictions are"].table[1]
    values = {row[0]: [float(cell) for cell in row[1:3]] for row in table if "%" not in row[1]}
    rarer = int(np.mean(y == 1) <= 0.5)
    proba, scored = model.predict_proba(X), [rarer] if n_classes == 2 else range(n_classes)
    areas = {"ROC-AUC": roc_auc_score, "Average precision": average_precision_score}
    for name, score in areas.items():
        expected = np.mean([score(y == k, proba[:, k]) for k in scored])
        chance = np.mean([score(y == k, np.zeros(len(y))) for k in scored])
        assert values[name] == pytest.approx([expected, chance], rel=1e-3)


def test_a_single_class_has_no_area_under_a_curve():
    assert [row[0] for row in of_one_class()[0].table[1]] == [
        *("Accuracy", "Log-loss", "Brier score", "Calibration error")
    ]


def test_only_two_classes_have_a_roc_curve():
    assert "Threshold (ROC curve)" in sections(2)
    assert "Threshold (ROC curve)" not in sections(3)
    assert "Threshold (ROC curve)" not in [s.title for s in of_one_class()]


def test_the_least_certain_rows_have_the_largest_entropy():
    model, X, y = fitted(3)
    entropy = model.predict_distribution(X).entropy
    rows = sections(3, first_row=100)["Least certain samples"].table[1]
    assert [int(row[0]) for row in rows] == (100 + np.argsort(-entropy)[:10]).tolist()
    assert [row[1] for row in rows] == [str(y[int(row[0]) - 100]) for row in rows]
    assert float(rows[0][3]) == pytest.approx(entropy.max(), rel=1e-3)
    assert all(0.0 <= float(row[4].removesuffix(" %")) <= 100.0 for row in rows)


@pytest.mark.parametrize(
    ("held_out", "words"), [(False, "was trained on these"), (None, "correct")]
)
def test_it_says_whether_the_rows_are_out_of_sample(held_out, words):
    text = sections(2, held_out=held_out)["How good the predictions are"].text
    assert words in text
    assert "was not trained" not in text


def test_the_verdict_is_in_the_report_with_its_p_value():
    text = sections(2)["How good the predictions are"].text
    assert re.search(r"The probabilities are .*give or take [\d.]+ points?\)?\. ", text)
    assert re.search(
        r"The test of the hypothesis that they are calibrated has p [=<] [\d.]+\.", text
    )


def test_the_document_makes_no_requests():
    html = render("Kinds", list(sections(3).values()), footer="")
    assert not re.search(r"(src|href)=\"(?!data:|#)", html)
    assert html.count("<img ") == sum(len(s.figures) for s in sections(3).values())


# ---- Pictures


def test_the_confusion_matrix_has_the_counts():
    model, X, y = fitted(3)
    svg = sections(3)["Confusion matrix"].figures[0][0].decode()
    for count in confusion_matrix(y, model.predict(X)).ravel():
        assert f">{count}<" in svg


def test_the_roc_curve_has_its_area():
    model, X, y = fitted(2)
    svg = sections(2)["Threshold (ROC curve)"].figures[0][0].decode()
    assert f"AUC = {roc_auc_score(y, model.predict_proba(X)[:, 1]):.2f}" in svg


def test_reliability_shows_every_bin_once():
    proba = np.array([[0.95, 0.05]] * 20 + [[0.65, 0.35]] * 10)
    ax = plot.reliability(np.array([0] * 19 + [1] + [0] * 5 + [1] * 5), proba)
    dots = ax.collections[1].get_offsets()
    assert np.allclose(dots, [[0.65, 0.5], [0.95, 0.95]])
    assert "error 0.050" in ax.get_legend_handles_labels()[1][-1]
    plt.close(ax.figure)

"""`probprop.report(model, X, y)`: one call, the document of the command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import BayesianRidge

import probprop
from limits import Limits
from live_models import FEATURES, table
from probprop import PBPClassifier, PBPClassifierCV, PBPRegressor, PBPRegressorCV

pytest.importorskip("jinja2", reason="the report needs the extra cli")

FRAME = table().dropna(subset=["price"]).reset_index(drop=True)[:150]
X, Y = FRAME[FEATURES], FRAME["price"]


def text_of(document: str) -> str:
    """The words of the sections, without pictures, the page and the date."""
    body = re.sub(r"<(script|style)\b.*?</\1>|<img[^>]*>|<footer.*", "", document, flags=re.S)
    return re.sub(r"<[^>]+>", " ", body)


def test_it_is_the_document_of_the_command(
    tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli_tables import call

    limits.few_candidates()
    limits.epochs_of_fast(4, 8)
    monkeypatch.chdir(tmp_path)
    FRAME[[*FEATURES, "price"]].to_csv("houses.csv", index=False)
    line = "fit houses.csv --target price --budget fast -q -o m.pbp --report command.html"
    assert call(line) == 0
    given = probprop.table.read_table("houses.csv")
    model = PBPRegressorCV(budget="fast", missing="marginalize", random_state=0, n_jobs=-1)
    model.fit(given[FEATURES], given["price"])
    made = probprop.report(model, given[FEATURES], given["price"], "python.html")
    assert Path("python.html").read_text() == made.html
    assert text_of(made.html) == text_of(Path("command.html").read_text())
    assert "out-of-fold samples" in made.html
    arrays = 'id="what-if-arrays">([^<]*)<'
    pages = [re.findall(arrays, Path(name).read_text()) for name in ("python.html", "command.html")]
    assert pages[0] == pages[1] != []


@pytest.mark.usefixtures("few_epochs")
def test_other_rows_are_not_said_to_be_out_of_fold() -> None:
    model = PBPRegressorCV(budget="fast", random_state=0).fit(X, Y)
    shuffled = X.sample(frac=1.0, random_state=0)
    assert "out-of-fold samples" not in text_of(probprop.report(model, shuffled, Y).html)
    held_out = probprop.report(model, X[:50], Y[:50], held_out=True)
    assert "test samples" in text_of(held_out.html)
    assert "Predicting price" in held_out.html


def test_notebooks_show_it_in_a_frame() -> None:
    model = PBPRegressor(n_epochs=2, random_state=0).fit(np.eye(20, 3), np.arange(20.0))
    made = probprop.report(model, np.eye(20, 3), np.arange(20.0))
    shown = made._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert shown.count("<") == 2
    assert "MB of HTML" in repr(made)
    assert "x0" in text_of(made.html)
    assert "Predicting target" in made.html


@pytest.mark.parametrize("estimator", [PBPClassifier(n_epochs=3), PBPClassifierCV(budget="fast")])
def test_classes_and_several_targets(estimator: Any) -> None:
    numbers, label = np.asarray(FRAME[["price", "rent"]]), FRAME["grade"]
    estimator.set_params(random_state=0).fit(numbers, label)
    assert "Confusion matrix" in text_of(probprop.report(estimator, numbers, label).html)
    two = PBPRegressor(n_epochs=2, random_state=0).fit(numbers, numbers)
    text = text_of(probprop.report(two, numbers, pd.DataFrame(numbers)).html)
    assert "0: how good the predictions are" in text


def test_what_it_cannot_report_on() -> None:
    model = PBPRegressor(n_epochs=2).fit(np.eye(20, 3), np.arange(20.0))
    with pytest.raises(ValueError, match="y must be the targets of X"):
        probprop.report(model, np.eye(20, 3))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        probprop.report(model, np.eye(20, 3), [1.0])
    with pytest.raises(TypeError, match="model must be an estimator of probprop"):
        probprop.report(BayesianRidge().fit(np.eye(3), [1, 2, 3]), np.eye(3), [1, 2, 3])

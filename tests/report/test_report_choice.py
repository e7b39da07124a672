"""How a report, its picture and its words show the choice of epochs and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probprop import PBPRegressor, plot
from probprop.estimators.choice import Choice, Curve
from probprop.report import choice_text, model_facts, regression_sections

matplotlib.use("Agg")

TITLE = "How epochs and memory were chosen"
X = np.random.RandomState(0).standard_normal((60, 2))
Y = X[:, 0] ** 2
CURVES = (
    Curve(None, (10, 40, 100), (-2.2, -2.0, -2.1)),
    Curve(3.0, (10, 40), (-2.1, -1.9)),
    Curve(30.0, (10, 40, 100), (-2.3, -1.8, -1.5)),
)


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    yield
    plt.close("all")


def fitted(choice: Choice | None = None, **parameters: Any) -> PBPRegressor:
    """A model with a choice made by hand: ten rows are too few for a real one."""
    parameters = {"n_epochs": "auto", "memory": "auto", **parameters}
    model = PBPRegressor(3, random_state=0, **parameters).fit(X[:10], Y[:10])
    if choice is not None:
        model.choice_ = choice
    return model


def chosen(memory: float | None, n_epochs: int, gain: float, error: float) -> Choice:
    return Choice(n_epochs, memory, gain, error, 60, CURVES)


# ---- The words


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (
            chosen(30.0, 1000, 0.5, 0.09),
            "memory 30, 1,000 epochs; log-likelihood +0.50 ± 0.09 per row over the paper's "
            "protocol",
        ),
        (
            chosen(None, 100, 0.5, 0.09),
            "no memory bound, 100 epochs; log-likelihood +0.50 ± 0.09 per row over the paper's "
            "protocol",
        ),
        (
            chosen(None, 40, 0.02, 0.03),
            "no memory bound, 40 epochs (the paper's protocol); the best other, +0.02 ± 0.03 per "
            "row, is not clearly better",
        ),
        (
            chosen(None, 40, 0.0, 0.0),
            "no memory bound, 40 epochs (the paper's protocol); nothing else tried was better",
        ),
    ],
)
def test_the_sentence_tells_what_was_chosen_and_why(choice: Choice, words: str) -> None:
    assert choice_text(fitted(choice)) == f"chosen on held-out rows: {words}"


def test_what_the_gain_is_over_follows_the_parameters() -> None:
    """Where the user gave epochs or memory, the choice is compared with a fit of those."""
    bounded = (Curve(7.5, (10, 40, 100), (-2.2, -2.0, -1.5)),)
    text = choice_text(fitted(Choice(100, 7.5, 0.5, 0.1, 60, bounded), memory=7.5))
    assert "memory 7.5, 100 epochs; log-likelihood +0.50 ± 0.10" in text
    assert text.endswith("over memory 7.5, 40 epochs")
    at_five = Curve(None, (5,), (-2.0,)), Curve(3.0, (5,), (-1.5,))
    text = choice_text(fitted(Choice(5, 3.0, 0.5, 0.1, 60, at_five), n_epochs=5))
    assert "memory 3, 5 epochs; log-likelihood +0.50 ± 0.10" in text
    assert text.endswith("over no memory bound, 5 epochs")
    text = choice_text(fitted(Choice(5, None, 0.1, 0.2, 60, at_five), n_epochs=5))
    assert "no memory bound, 5 epochs; the best other" in text


def test_too_few_rows_and_a_single_epoch() -> None:
    text = choice_text(fitted(n_epochs=1))
    assert text == "too few rows to choose from: no memory bound, 1 epoch"


def test_the_facts_have_the_choice_and_the_memory() -> None:
    model = fitted(chosen(30.0, 100, 0.5, 0.09))
    facts = dict(model_facts(model, ["a", "b"], "y"))
    assert facts["Epochs and memory"] == choice_text(model)
    assert facts["Training"] == "10 rows, 40 passes, memory of 30"
    by_hand = dict(model_facts(fitted(n_epochs=2, memory=3.0), ["a", "b"], "y"))
    assert by_hand["Training"] == "10 rows, 2 passes, memory of 3"
    assert "Epochs and memory" not in by_hand
    assert dict(model_facts(fitted(memory=None), ["a", "b"], "y"))["Training"].endswith("passes")


# ---- The picture


def test_each_memory_is_a_line_and_the_choice_a_ring() -> None:
    ax = plot.choice_curves(chosen(30.0, 100, 0.5, 0.09))
    *lines, ring = ax.get_lines()
    for line, curve in zip(lines, CURVES, strict=True):
        assert_array_equal(line.get_xdata(), curve.n_epochs)
        assert_array_equal(line.get_ydata(), curve.log_likelihood)
    assert_allclose(ring.get_xydata(), [[100, -1.5]])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["no memory bound", "memory 3", "memory 30", "chosen"]
    assert ax.get_xscale() == "log"
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 3


def test_the_ring_is_on_the_line_without_a_bound_too() -> None:
    ax = plot.choice_curves(chosen(None, 40, 0.0, 0.0))
    assert_allclose(ax.get_lines()[-1].get_xydata(), [[40, -2.0]])


def test_one_number_of_epochs_is_a_mark_per_memory() -> None:
    curves = Curve(None, (5,), (-2.0,)), Curve(3.0, (5,), (-1.5,))
    ax = plot.choice_curves(Choice(5, 3.0, 0.5, 0.1, 60, curves))
    ax.figure.canvas.draw()
    assert all(line.get_marker() not in ("", "None", None) for line in ax.get_lines())


def test_a_fit_without_a_choice_has_no_picture() -> None:
    with pytest.raises(ValueError, match="choice has no curves"):
        plot.choice_curves(fitted().choice_)


# ---- The report


def sections(model: PBPRegressor) -> dict[str, Any]:
    made = regression_sections(model, X, Y, feature_names=["a", "b"], target="y", held_out=True)
    return {section.title: section for section in made}


def test_the_report_has_a_section_where_something_was_chosen() -> None:
    model = fitted(chosen(30.0, 100, 0.5, 0.09))
    made = sections(model)
    section = made[TITLE]
    assert section.text.startswith("Chosen on held-out rows: memory 30, 100 epochs; ")
    ((image, alt),) = section.figures
    ElementTree.fromstring(image)
    assert "memory 30" in image.decode()
    assert "held-out" in alt
    assert list(made).index(TITLE) == list(made).index("Training") + 1


def test_the_report_has_no_section_where_nothing_was() -> None:
    assert TITLE not in sections(fitted(n_epochs=2, memory=3.0))
    assert TITLE not in sections(fitted())

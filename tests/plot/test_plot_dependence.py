"""Which features matter, and the panels of columns, by what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probprop import plot
from probprop.metrics import Dependence, Importance

matplotlib.use("Agg")

MEAN = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
BAND = Dependence(MEAN, MEAN - 0.1, MEAN + 0.05)
LABELS: Any = {"name": "column", "target": "predicted"}


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    yield
    plt.close("all")


class TestPanels:
    def test_a_curve_has_the_band_of_its_own_output(self) -> None:
        ax = plot.dependence([1, 2, 3], BAND, outputs={1: "mean"}, **LABELS)
        assert_array_equal(ax.get_lines()[0].get_ydata(), MEAN[:, 1])
        vertices = ax.collections[0].get_paths()[0].vertices
        at_two = vertices[np.isclose(vertices[:, 0], 2.0)][:, 1]
        assert_allclose([at_two.min(), at_two.max()], [0.4, 0.55])
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("column", "predicted")

    def test_several_outputs_have_lines_that_differ_without_colors_too(self) -> None:
        ax = plot.dependence([1, 2, 3], BAND, outputs={0: "no", 1: "yes"}, **LABELS)
        assert not ax.collections
        assert len({line.get_marker() for line in ax.get_lines()}) == 2

    def test_ticks_at_the_bottom_are_rows_a_hundred_at_most(self) -> None:
        rows = np.linspace(1.0, 3.0, 1_000)
        ax = plot.dependence([1, 2, 3], BAND, outputs={0: "mean"}, rows=rows, **LABELS)
        ticks = ax.get_lines()[-1].get_xdata()
        assert len(ticks) == 300
        assert np.isin(ticks, rows).all()

    def test_dates_are_drawn_as_dates(self) -> None:
        days = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], "datetime64[D]")
        ax = plot.dependence(days, BAND, outputs={0: "mean"}, rows=days, **LABELS)
        assert ax.xaxis.get_converter() is not None
        assert_array_equal(ax.get_lines()[0].get_xdata(), days)

    def test_categories_are_marks(self) -> None:
        ax = plot.dependence(["a", "$b", "c"], BAND, outputs={0: "mean"}, **LABELS)
        assert [text.get_text() for text in ax.get_xticklabels()] == ["a", r"\$b", "c"]
        (points, _, (bars,)) = ax.containers[0]
        assert_array_equal(points.get_ydata(), MEAN[:, 0])
        assert_allclose([s[:, 1] for s in bars.get_segments()], MEAN[:, :1] + [-0.1, 0.05])

    def test_the_ranking_shows_means_and_spreads(self) -> None:
        loss = np.array([[0.4, 0.6], [0.1, 0.1], [0.0, -0.2]])
        found = Importance(("size", "age", "noise"), loss, loss, 50, 3)
        ax = plot.importance(found, n=2)
        assert [text.get_text() for text in ax.get_yticklabels()] == ["size", "age"]
        (points, _, (bars,)) = ax.containers[0]
        assert_allclose(points.get_xdata(), [0.5, 0.1])
        assert_allclose(np.ptp(bars.get_segments()[0][:, 0]), 2 * np.std([0.4, 0.6], ddof=1))

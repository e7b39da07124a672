"""Pictures of targets of which a power was predicted: their distributions are skewed."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from probprop import BoxCox, Mixture, TransformedMixture, plot

matplotlib.use("Agg")


def test_a_mean_may_lie_outside_its_interval() -> None:
    log_y = Mixture.of_one([0.0, 1.0], [3.0, 3.0], 4.0)
    p = TransformedMixture(log_y, BoxCox(0.0))
    assert (p.mean > p.interval(0.95)[1]).all()
    ax = plot.predicted_against_observed([1.0, 2.0], p)
    assert_array_equal(ax.get_lines()[1].get_ydata(), p.mean)
    ends = [segment[:, 1] for segment in ax.collections[0].get_segments()]
    assert_allclose(ends, np.transpose(p.interval(0.95)))
    plt.close(ax.figure)

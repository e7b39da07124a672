"""Plots of predictions, of their calibration, and of the model selection.

Every function draws on the Axes it is given, or on a new figure, and returns the Axes; none
shows or saves it. The shades of a band are one blue and differ in gray too; whatever
else differs in color also differs in marker or line style.

>>> import matplotlib.pyplot as plt
>>> import numpy as np
>>> from probprop import PBPRegressor, plot
>>> x = np.linspace(-4, 4, 20)
>>> model = PBPRegressor(random_state=0).fit(x[:, np.newaxis], x**3)
>>> ax = plot.predictive_band(x, model.predict_distribution(x[:, np.newaxis]), data=(x, x**3))
>>> ax.figure.savefig("toy.png")  # doctest: +SKIP
>>> plt.close(ax.figure)
"""

try:
    import matplotlib  # noqa: F401  (tried first, so that its absence is explained)
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ImportError(
        "probprop.plot needs matplotlib, which is missing: pip install 'probprop[cli]'"
    ) from error

from probprop.plot.model import candidate_curves, shapley_values
from probprop.plot.predictions import (
    calibration,
    predicted_against_observed,
    predictive_band,
    reliability,
    residuals_against_std,
)

__all__ = [
    "calibration",
    "candidate_curves",
    "predicted_against_observed",
    "predictive_band",
    "reliability",
    "residuals_against_std",
    "shapley_values",
]

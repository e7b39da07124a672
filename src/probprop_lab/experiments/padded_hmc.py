"""HMC for the many small fits of active learning: one compilation serves all of a data set."""

from __future__ import annotations

import numpy as np

from probprop._types import Array, FloatArray
from probprop_lab.baselines import HMCRegressor
from probprop_lab.experiments.active import N_LAST


class PaddedHMC(HMCRegressor):
    """HMC that pads its training rows, at most 29, to 29 and masks the padding.

    jax compiles a program for every shape. The programs for 20, 21, ... rows would take longer
    to compile than to run.
    """

    def _masked(self, Xs: Array, ys: FloatArray) -> tuple[Array, FloatArray, FloatArray]:
        more = N_LAST - len(ys)
        mask = np.pad(np.ones(len(ys)), (0, more))
        return np.pad(Xs, ((0, more), (0, 0))), np.pad(ys, (0, more)), mask

    def _outputs(self, Xs: Array) -> FloatArray:
        """Outputs of all drawn networks at standardised inputs, (n_chains * n_draws, n)."""
        more = max(0, N_LAST - len(Xs))
        return super()._outputs(np.pad(Xs, ((0, more), (0, 0))))[:, : len(Xs)]

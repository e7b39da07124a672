"""States of the authors' C code on synthetic data (tests/data/oracle_*.json), as Posteriors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from probprop._types import FloatArray
from probprop.inference.posterior import Posterior

NAMES = ("oracle_H4", "oracle_H43")
State = dict[str, Any]

# The tolerances of the files' note; the second for values formed by cancellation.
RTOL = 1e-10
RTOL_HAT = 1e-8


@dataclass(frozen=True, eq=False)
class Oracle:
    """One file: its data, and the states by name."""

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    layer_shapes: list[tuple[int, int]]
    initial: State
    initial_predictions: State
    after_point_1: State
    adf_only_epoch1: State
    epochs: list[State]

    def layers(self, flat: list[float]) -> tuple[FloatArray, ...]:
        """Cut a flat list of weights into layers, each (n_out, n_in + 1)."""
        sizes = [n_out * n_in for n_out, n_in in self.layer_shapes]
        parts = np.split(np.array(flat), np.cumsum(sizes)[:-1])
        return tuple(p.reshape(s) for p, s in zip(parts, self.layer_shapes, strict=True))

    def posterior(self, state: State) -> Posterior:
        """Build the Posterior of a state."""
        return Posterior(
            m_w=self.layers(state["m_w"]),
            v_w=self.layers(state["v_w"]),
            alpha_noise=state["a_noise"],
            beta_noise=state["b_noise"],
            alpha_prior=state["a_prior"],
            beta_prior=state["b_prior"],
            v_hat_nat=self.layers(state["v_w_hat_nat"]),
            a_hat_nat=self.layers(state["a_w_hat_nat"]),
            b_hat_nat=self.layers(state["b_w_hat_nat"]),
        )


@cache
def load(name: str) -> Oracle:
    """Load tests/data/<name>.json."""
    raw = json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())
    return Oracle(
        X_train=np.array(raw["X_train"]),
        y_train=np.array(raw["y_train"]),
        X_test=np.array(raw["X_test"]),
        layer_shapes=[(n_out, n_in) for n_out, n_in in raw["layer_shapes"]],
        initial=raw["initial"],
        initial_predictions=raw["initial_predictions"],
        after_point_1=raw["after_point_1"],
        adf_only_epoch1=raw["adf_only_epoch1"],
        epochs=raw["epochs"],
    )


def assert_matches(posterior: Posterior, state: State, *, rtol: float = RTOL) -> None:
    """Compare every parameter with a state of the authors' code."""

    def flat(layers: tuple[FloatArray, ...]) -> FloatArray:
        return np.concatenate([layer.ravel() for layer in layers])

    hat_rtol = max(rtol, RTOL_HAT)
    assert_allclose(flat(posterior.m_w), state["m_w"], rtol=rtol, err_msg="m_w")
    assert_allclose(flat(posterior.v_w), state["v_w"], rtol=rtol, err_msg="v_w")
    assert_allclose(flat(posterior.v_hat_nat), state["v_w_hat_nat"], rtol=rtol, err_msg="v_hat")
    assert_allclose(flat(posterior.a_hat_nat), state["a_w_hat_nat"], rtol=hat_rtol, err_msg="a_hat")
    assert_allclose(flat(posterior.b_hat_nat), state["b_w_hat_nat"], rtol=hat_rtol, err_msg="b_hat")
    assert_allclose(
        [
            *posterior.alpha_noise,
            *posterior.beta_noise,
            posterior.alpha_prior,
            posterior.beta_prior,
        ],
        [state["a_noise"], state["b_noise"], state["a_prior"], state["b_prior"]],
        rtol=rtol,
        err_msg="alpha and beta of noise and prior",
    )
    # A Posterior does not store the factors' means, which are exactly zero.
    assert_allclose(state["m_w_hat_nat"], 0.0, atol=5e-13, err_msg="m_hat")

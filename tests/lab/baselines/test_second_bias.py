"""PBP with further bias units: the same bits as PBP without them, and clones without traces."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor
from probprop_lab.baselines.second_bias import SecondBiasPBP

X, Y = load_diabetes(return_X_y=True)


@pytest.mark.parametrize("evidence_cap", [None, 3.0])
def test_without_ones_it_is_pbp_bit_for_bit(evidence_cap: float | None) -> None:
    plain = PBPRegressor((6, 5), n_epochs=3, evidence_cap=evidence_cap, random_state=1)
    model = SecondBiasPBP(clone(plain), ()).fit(X[:300], Y[:300])
    plain.fit(X[:300], Y[:300])
    for ours, expected in zip(model.posterior_.m_w, plain.posterior_.m_w, strict=True):
        np.testing.assert_array_equal(ours, expected)
    ours, expected = (m.predict_distribution(X[300:]) for m in (model, plain))
    for name in ("mean", "epistemic_std", "aleatoric_std", "std"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(expected, name))
    np.testing.assert_array_equal(model.posterior_.alpha_noise, plain.posterior_.alpha_noise)
    for name in ("noise_variance_", "prior_variance_", "log_evidence_"):
        assert getattr(model, name) == getattr(plain, name)


def test_a_column_of_ones_is_a_bias_unit() -> None:
    constant = np.column_stack([X, np.full(len(Y), 0.998)])
    model = SecondBiasPBP(PBPRegressor((), n_epochs=1, random_state=0), [10])
    model.fit(constant[:300], Y[:300])
    # Its weight sees what the bias sees; at 0 it would see nothing, and stay as it was.
    v_w = model.posterior_.v_w[0][0]
    assert v_w[10] == pytest.approx(v_w[11], rel=0.01)
    at_zero = PBPRegressor((), n_epochs=1, random_state=0).fit(constant[:300], Y[:300])
    assert at_zero.posterior_.v_w[0][0, 10] > 10.0 * v_w[10]


def test_fit_leaves_the_estimator_it_was_given_and_the_data_alone() -> None:
    rows, given = X.copy(), PBPRegressor(4, n_epochs=1, random_state=0)
    SecondBiasPBP(given, [0]).fit(rows, Y)
    assert not hasattr(given, "posterior_")
    assert given.standardize
    np.testing.assert_array_equal(rows, X)

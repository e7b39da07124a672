"""One prior precision per column and per later layer: sweeps in groups, and `relevance_`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_friedman1

import posteriors
import probprop
from hats import continuous
from probprop import PBPRegressor
from probprop._types import Array
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Encoded, basis_of, columns_of
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop.inference.posterior import LAYERED, Memory, Posterior
from probprop.inference.standardize import identity_standardizer
from probprop.inference.task import Task
from probprop.inference.training import Rows, task_of
from probprop.reference.prior import Factor, group_gammas, refine_factor, relevance

NATIVE, REFERENCE = ENGINES["native"], ENGINES["reference"]


def start(sizes: list[int], shape: float = 3.0) -> Posterior:
    return posteriors.start(sizes, prior_shape=shape, prior_rate=shape)


def rows(n: int, n_features: int) -> tuple[Array, Array]:
    X = np.random.RandomState(1).standard_normal((n, n_features))
    return X, np.sin(X[:, 0]) + 0.1 * X[:, -1]


def trained(
    groups: Array, n: int = 60, hidden: tuple[int, ...] = (6,), **options: Any
) -> Posterior:
    """A posterior whose factors two epochs have refined."""
    X, y = rows(n, len(groups))
    options = {"due": None, "memory": None, "engine": NATIVE, "shared": False} | options
    task = Task(
        start([len(groups), *hidden, 1]),
        options.get("X", X),
        None,
        y,
        identity_standardizer(len(groups)),
        Gaussian(),
        options["memory"],
        np.array([True, True]),
        due=options["due"],
        groups=None if options["shared"] else groups,
    )
    ((posterior, _),), _ = options["engine"].train([task])
    return posterior


def assert_same(got: Posterior, expected: Posterior, rtol: float) -> None:
    for name in LAYERED:
        for a, b in zip(getattr(got, name), getattr(expected, name), strict=True):
            assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=name)


GROUPS = np.array([0, 0, 1, 2, 2], np.int32)


@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)])
@pytest.mark.parametrize("memory", [None, Memory(30.0, 6.0, 6.0)])
def test_engines_agree(hidden: tuple[int, ...], memory: Memory | None) -> None:
    due = np.array([[True, False, True, True, False], [False, True, True, False, True]])
    for groups, of in ((GROUPS, None), (GROUPS, due)):
        given: Any = {"hidden": hidden, "memory": memory, "due": of}
        got, expected = (trained(groups, engine=e, **given) for e in (NATIVE, REFERENCE))
        assert_same(got, expected, 1e-8)
        assert (got.alpha_prior, got.beta_prior) == (3.0, 3.0)
    got, expected = (e.refine_prior(trained(GROUPS), 8.0, GROUPS)[0] for e in (NATIVE, REFERENCE))
    assert_same(got, expected, 1e-10)


def test_two_groups_follow_the_formulas_of_one() -> None:
    groups = np.array([0, 1], np.int32)
    q = trained(groups, hidden=(3,))
    got, _ = REFERENCE.refine_prior(q, math.inf, groups)
    columns = [(0, 0), (0, 1), (0, 2), (1, slice(None))]  # layer and inputs of each group
    for layer, inputs in columns:
        a_hat, b_hat = q.a_hat_nat[layer][:, inputs], q.b_hat_nat[layer][:, inputs]
        alpha, beta = 3.0 + a_hat.sum(), 3.0 - b_hat.sum()
        largest = 3.0 if layer == 0 else math.inf  # (n_in + 1)/1: each share at most 1
        arrays = [getattr(q, name)[layer][:, inputs] for name in LAYERED]
        after = [getattr(got, name)[layer][:, inputs] for name in LAYERED]
        for place in np.ndindex(arrays[0].shape):
            factor = Factor(*(float(a[place]) for a in arrays))
            factor, alpha, beta, _ = refine_factor(factor, alpha, beta, math.inf, largest)
            assert_allclose([a[place] for a in after], factor, rtol=1e-12)
    # The Gamma of a group is the hyperprior times the factors, so that no state is needed.
    alphas, _ = group_gammas(got, groups)
    assert_allclose(alphas[3], alpha, rtol=1e-12)


def test_the_order_of_the_columns_does_not_matter() -> None:
    q, order = trained(GROUPS), np.array([3, 4, 2, 0, 1])
    names = {name: getattr(q, name) for name in LAYERED}
    moved = {k: (layers[0][:, [*order, 5]], *layers[1:]) for k, layers in names.items()}
    got, _ = NATIVE.refine_prior(replace(q, **moved), groups=GROUPS[order])
    expected, _ = NATIVE.refine_prior(q, groups=GROUPS)
    for name in LAYERED:
        a, b = getattr(got, name), getattr(expected, name)
        assert_allclose(a[0], b[0][:, [*order, 5]], rtol=1e-12)
        assert_allclose(a[1], b[1], rtol=1e-12)


def test_the_share_of_a_group_in_a_preactivation_is_at_most_1() -> None:
    groups, n_in = np.zeros(4, np.int32), 4
    q = start([n_in, 3, 1], shape=30.0)
    large = replace(q, m_w=tuple(3.0 + m for m in q.m_w), v_w=tuple(0.1 * v for v in q.v_w))
    for _ in range(20):
        large, _ = NATIVE.refine_prior(large, math.inf, groups)
    v_prior = 1.0 / large.v_hat_nat[0]
    assert (v_prior[:, :n_in] <= (n_in + 1) / n_in + 1e-12).all()
    assert (1.0 / large.v_hat_nat[1] > 1.25).all()


def test_inputs_that_are_not_due_keep_their_factors() -> None:
    q = trained(GROUPS)
    before, due = trained(GROUPS), np.zeros((2, 5), bool)
    due[:, 2] = True
    kept = trained(GROUPS, due=due)
    for j in (0, 1, 3, 4):
        assert (kept.a_hat_nat[0][:, j] == 0.0).all()
    assert (kept.a_hat_nat[0][:, 2] != 0.0).any()
    assert (kept.a_hat_nat[0][:, 5] != 0.0).any()  # the bias
    assert_array_equal(q.a_hat_nat[0], before.a_hat_nat[0])


def test_engines_agree_on_the_inputs_that_are_due_under_a_shared_prior() -> None:
    due = np.array([[True, False, True, False, False], [False, False, True, True, False]])
    got, expected = (
        trained(GROUPS, hidden=(5, 4), due=due, shared=True, engine=engine)
        for engine in (NATIVE, REFERENCE)
    )
    assert_same(got, expected, 1e-8)
    assert_allclose(got.alpha_prior, expected.alpha_prior, 1e-10)
    changed = (got.a_hat_nat[0] != 0.0).any(axis=0)
    assert_array_equal(changed[1:], [False, True, True, False, True])  # the bias is last


def test_sparse_rows_refine_seldom_inputs_every_eighth_epoch() -> None:
    n = 300
    seldom = sparse.csr_array(([1.0, 1.0], ([3, 9], [0, 0])), shape=(n, 1))
    others = sparse.csr_array((n, 298))
    X = sparse.csr_array(sparse.hstack([sparse.csr_array(np.ones((n, 1))), seldom, others]))
    plan, q = Plan(Gaussian()), start([300, 4, 1])

    def due(X: Any, n_iters: range) -> Any:
        standardizer = identity_standardizer(X.shape[1])
        return task_of(plan, standardizer, q, Rows(X, None, np.zeros(n)), n_iters, 8, n).due

    all_epochs = due(X, range(1, 9))
    assert all_epochs[:, 0].all()
    assert all_epochs[:, 1].sum() == 1
    assert_array_equal(all_epochs[3:5], due(X, range(4, 6)))  # epochs in steps, or resumed
    assert due(X.toarray(), range(1, 9)) is None
    assert due(X[:, :200], range(1, 9)) is None


def test_the_inputs_of_a_column_are_a_group() -> None:
    knots = np.array([0.0, 1.0, 2.0])
    hats = continuous(knots, np.column_stack([knots, np.eye(3)[1], np.zeros(3)]), np.zeros((2, 3)))
    X = Encoded(np.zeros((2, 3)), basis_of([hats, hats, hats]))
    assert_array_equal(columns_of(X), [0, 0, 3, 1, 1, 3, 2, 2, 3])
    assert_array_equal(columns_of(np.zeros((2, 3))), [0, 1, 2])
    assert Plan(Gaussian()).groups(X) is None


# ---- The estimator


def friedman(n: int = 400, n_more: int = 20) -> tuple[Array, Array]:
    X, y = make_friedman1(n + 1000, 5 + n_more, noise=1.0, random_state=0)
    return X, y


@pytest.mark.parametrize("hidden", [(50,), (50, 50)])
def test_irrelevant_columns_cost_less(hidden: tuple[int, ...]) -> None:
    X, y = friedman()
    models = [
        PBPRegressor(hidden, prior=prior, evidence_cap=10.0, random_state=0).fit(X[:400], y[:400])
        for prior in ("shared", "per_column")
    ]
    shared, own = (m.predict_distribution(X[400:]).logpdf(y[400:]).mean() for m in models)
    assert own > shared + 0.08
    assert models[1].relevance_[:5].min() > models[1].relevance_[5:].max()
    assert models[1].relevance_.max() == 1.0
    assert_allclose(models[1].relevance_, relevance(models[1].posterior_, np.arange(25)))


def test_files_checkpoints_shards_and_streams(tmp_path: Path) -> None:
    X, y = friedman(200, 5)
    given: Any = {"prior": "per_column", "n_epochs": 6, "random_state": 0}
    model = PBPRegressor((8,), **given).fit(X, y)
    model.save(tmp_path / "model")
    loaded = probprop.load(tmp_path / "model")
    assert loaded.prior == "per_column"
    assert_array_equal(loaded.relevance_, model.relevance_)
    for each in (model, loaded):
        each.partial_fit(X[:50], y[:50])
    assert_array_equal(loaded.posterior_.m_w[0], model.posterior_.m_w[0])

    stopped = PBPRegressor((8,), **given)
    stopped.fit(X, y, callback=lambda epoch: epoch.n_iter == 3, checkpoint=tmp_path / "half")
    resumed = PBPRegressor((8,), **given).fit(X, y, checkpoint=tmp_path / "half")
    whole = PBPRegressor((8,), **given).fit(X, y)
    assert_array_equal(resumed.posterior_.v_hat_nat[0], whole.posterior_.v_hat_nat[0])

    by_shards = PBPRegressor((8,), **given, n_shards=2).fit(X, y)
    assert by_shards.relevance_[:5].mean() > by_shards.relevance_[5:].mean()


def test_what_is_refused() -> None:
    X, y = rows(30, 3)
    with pytest.raises(AttributeError, match=r'relevance_ is learned with prior="per_column"'):
        _ = PBPRegressor((3,), n_epochs=1).fit(X, y).relevance_
    with pytest.raises(ValueError, match=r"prior_shape == 2, must be > 2.0"):
        PBPRegressor(prior="per_column", prior_shape=2.0).fit(X, y)
    with pytest.raises(ValueError, match="prior must be"):
        PBPRegressor(prior="column").fit(X, y)  # type: ignore[arg-type]

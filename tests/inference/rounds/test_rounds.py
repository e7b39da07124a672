"""Rounds: which rows they take, and what a training by them is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState

from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import NOISE_TAILS, Gaussian, of_labels
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch, flat
from probprop.inference.task import Task
from probprop.inference.training import (
    MapShards,
    Rows,
    Schedule,
    Setting,
    State,
    at_rest,
    combine,
    in_threads,
    joined,
    one_round,
    rounds,
    rows_of_part,
    shard_order,
    update_part,
)


@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=9),
    n_rounds=st.integers(1, 20),
    seed=st.integers(0, 2**31 - 1),
    n_iter=st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_every_row_is_used_once_in_every_epoch(
    sizes: list[int], n_rounds: int, seed: int, n_iter: int
) -> None:
    schedule = Schedule(tuple(sizes), n_rounds, seed)
    taken: list[list[int]] = [[] for _ in sizes]
    for n_round in range(len(schedule.ends(n_iter))):
        assert schedule.parts(n_iter, n_round)
        for part in schedule.parts(n_iter, n_round):
            taken[part.shard] += part.places(sizes[part.shard]).tolist()
    assert [sorted(places) for places in taken] == [list(range(n)) for n in sizes]


@given(n=st.integers(1, 10**9), n_shards=st.integers(2, 64))
@settings(max_examples=100, deadline=None)
def test_rounds_of_the_first_epoch_grow_with_what_is_known(n: int, n_shards: int) -> None:
    schedule = Schedule((n,) * n_shards, 16, seed=0)
    ends = np.array(schedule.ends(1))
    assert ends[-1] == 1.0
    if len(ends) > 1:
        # The last may be half as long again.
        assert (np.diff(ends) <= 1.5 * ends[:-1] / 16 * (1 + 1e-9)).all()
        assert ends[0] * n * n_shards >= 2000 - 1e-6


def test_epochs_take_the_rows_in_another_order() -> None:
    schedule = Schedule((50, 50), 1, seed=3)
    orders = [
        tuple(part.places(50).tolist()) for n_iter in (2, 3) for part in schedule.parts(n_iter, 0)
    ]
    assert len({*orders}) == 4
    assert orders == [
        tuple(part.places(50).tolist())
        for n_iter in (2, 3)
        for part in Schedule((50, 50), 1, seed=3).parts(n_iter, 0)
    ]


# ---- Trainings


def problem(
    plan: Plan, n: int = 3000, n_shards: int = 3, n_epochs: int = 3, n_rounds: int = 4
) -> tuple[Setting, State, list[Any]]:
    rng = RandomState(0)
    X = rng.standard_normal((n, 4))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    y = f + 0.1 * rng.standard_normal(n)
    if plan.likelihood.task == "classification":
        y = plan.likelihood.encode(np.digitize(f, [-0.5, 0.5]))
    elif plan.likelihood.n_outputs == 2:
        y = np.stack([y, X[:, 3] + 0.3 * rng.standard_normal(n)], axis=1)
    if plan.marginalize:
        X[rng.uniform(size=X.shape) < 0.1] = np.nan
    fitted = training.start(plan, Inputs(X), y, rng)
    run = training.begin(plan, fitted, Inputs(X), y, rng)
    rows = run.rows._replace(weights=rng.uniform(0.5, 1.5, n))
    orders = np.array_split(shard_order(1, 0, n), n_shards)
    schedule = Schedule(tuple(map(len, orders)), n_rounds, seed=1)
    setting = Setting(plan, fitted.standardizer, schedule, n_epochs)
    return (
        setting,
        State(fitted.posterior),
        [partial(rows_of_part, rows, order) for order in orders],
    )


def last(setting: Setting, state: State, map_shards: MapShards) -> tuple[State, Epoch | None]:
    *_, step = rounds(setting, state, map_shards)
    return step


PLANS = {
    "values": Plan(Gaussian(), (8,), evidence_cap=3.0),
    "no bound": Plan(Gaussian(), (8,)),
    "two targets, deep": Plan(Gaussian(2), (8, 5), evidence_cap=3.0),
    "classes": Plan(of_labels(np.array([0, 1, 2]), [0, 1, 2]), (8,), evidence_cap=3.0),
    "noise of the inputs": Plan(Gaussian(), (8,), noise_hidden=(4,), evidence_cap=3.0),
    "heavy tails": Plan(NOISE_TAILS["heavy"](1), (8,), evidence_cap=3.0, tail_burn_in=1),
    "gaps": Plan(Gaussian(), (8,), marginalize=True),
    "single precision": Plan(Gaussian(), (8,), dtype=np.dtype("float32")),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_threads_change_no_bit_and_more_epochs_fit_better(plan: Plan) -> None:
    setting, state, shards = problem(plan)
    ones = [made for _, made in rounds(setting, state, in_threads(shards, 1)) if made]
    alone, shared = (last(setting, state, in_threads(shards, n)) for n in (1, 3))
    a, b = alone[0].posterior, shared[0].posterior
    for name in ("m_w", "v_w", "v_hat_nat"):
        assert np.array_equal(flat(getattr(a, name)), flat(getattr(b, name)))
    assert np.array_equal(a.beta_noise, b.beta_noise)
    assert np.array_equal(a.tail, b.tail)
    assert alone[1] == shared[1] == ones[-1]
    assert [epoch.n_iter for epoch in ones] == [1, 2, 3]
    assert all(epoch.n_points == 3000 for epoch in ones)
    assert ones[-1].mean_log_Z > ones[0].mean_log_Z
    if a.noise_network is not None and b.noise_network is not None:
        assert np.array_equal(flat(a.noise_network.m_w), flat(b.noise_network.m_w))
        assert not np.array_equal(
            flat(a.noise_network.m_w), flat(state.posterior.noise_network.m_w)
        )
    if plan.likelihood.learns_tail:
        assert a.tail[0] > 0.0


def test_a_training_resumes_from_any_round() -> None:
    setting, state, shards = problem(PLANS["values"])
    whole = [*rounds(setting, state, in_threads(shards, 1))]
    for k in (1, 5, len(whole) - 2):
        again = [*rounds(setting, whole[k][0], in_threads(shards, 1))]
        assert len(again) == len(whole) - k - 1
        assert again[-1][1] == whole[-1][1]
        assert np.array_equal(flat(again[-1][0].posterior.m_w), flat(whole[-1][0].posterior.m_w))


def test_one_shard_is_an_epoch_in_pieces() -> None:
    """With K = 1 a round is an ADF pass over its rows: the whole is passes and refinements."""
    plan = PLANS["no bound"]
    setting, state, shards = problem(plan, n_shards=1, n_epochs=2)
    (shard,), schedule = shards, setting.schedule
    engine = ENGINES[plan.engine]
    q = state.posterior
    for n_iter in (1, 2):
        for n_round in range(len(schedule.ends(n_iter))):
            (part,) = schedule.parts(n_iter, n_round)
            rows = shard(part)
            task = Task(
                q,
                *rows[:3],
                setting.standardizer,
                plan.likelihood,
                None,
                np.array([False]),
                weights=rows.weights,
            )
            (trained,), _ = engine.train([task])
            q = trained.posterior
        q, _ = engine.refine_prior(q)
    found = last(setting, state, in_threads(shards, 1))[0].posterior
    assert np.array_equal(flat(found.m_w), flat(q.m_w))
    assert np.array_equal(flat(found.v_w), flat(q.v_w))
    assert np.array_equal(found.beta_noise, q.beta_noise)


def test_a_round_combines_the_updates_of_the_shards() -> None:
    setting, state, shards = problem(PLANS["values"])
    maps = in_threads(shards, 1)
    first = one_round(setting, state, maps)[0]
    seen = []

    def spying(call, works):
        seen.extend(works)
        return maps(call, works)

    second = one_round(setting, first, spying)[0]
    made = [update_part(shards[work.part.shard], work) for work in seen]
    combined, *_ = combine(first.posterior, made, at_rest(first.posterior))
    assert np.array_equal(flat(second.posterior.m_w), flat(combined.m_w))
    assert second.log_Z_sum == first.log_Z_sum + sum(each.log_Z_sum for each in made)


def test_a_shard_without_rows_in_a_round_has_no_part_in_it() -> None:
    plan = PLANS["no bound"]
    setting, state, shards = problem(plan, n=2100, n_epochs=2)
    rows, order = shards[2].args
    tiny = [*shards[:2], partial(rows_of_part, rows, order[:1])]
    sizes = tuple(len(shard.args[1]) for shard in tiny)
    setting = replace(setting, schedule=Schedule(sizes, 4, seed=1))
    _, made = last(setting, state, in_threads(tiny, 1))
    assert made is not None
    assert made.n_points == 1401


def test_parts_without_missing_values_are_combined_with_parts_with_them() -> None:
    X, y = np.ones((2, 3)), np.zeros(2)
    known, gaps = Rows(X, None, y), Rows(X, np.full((2, 3), 0.5), y)
    for parts in ([known, gaps], [gaps, known]):
        X_var = joined(parts).X_var
        assert X_var is not None
        each = [0.0 if part.X_var is None else 0.5 for part in parts]
        np.testing.assert_array_equal(X_var, np.repeat(each, 2)[:, None] * np.ones(3))
    assert joined([known, known]).X_var is None

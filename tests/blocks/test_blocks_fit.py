"""Fits on blocks of arrays: the same as in memory where they fit, and as an oracle on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState, default_rng

from block_rows import cut, interrupt, made, network, same
from probprop import PBPClassifier, PBPRegressor, fit
from probprop._types import Array
from probprop.data.scratch import LEAST, Shape, scratch
from probprop.inference import training
from probprop.inference.checkpoint import CheckpointError
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian, Heavy
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch, Posterior, flat
from probprop.inference.standardize import fit_standardizer
from probprop.inference.training import (
    Fitted,
    Rows,
    Schedule,
    Setting,
    State,
    Work,
    rounds,
    update_part,
)

# ---- Rows that fit into memory


@pytest.mark.parametrize("ends", [[], [100], [1, 2, 399]])
def test_blocks_that_fit_are_fitted_as_in_memory_bit_for_bit(ends: list[int]) -> None:
    X, y = made()
    model = fit(network(evidence_cap=3), cut(X, y, ends))
    own = network(evidence_cap=3).fit(X, y)
    assert same(model.posterior_, own.posterior_)
    assert model.history_ == own.history_
    assert model.log_evidence_ == own.log_evidence_
    assert model.n_samples_seen_ == 400


def test_names_and_classes_match_memory() -> None:
    X, y = made()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = np.where(y > 0.0, "high", "low")
    given = [(frame[:150], labels[:150]), (frame[150:], labels[150:])]
    classifier = fit(PBPClassifier((5,), n_epochs=3, random_state=0), given)
    own = PBPClassifier((5,), n_epochs=3, random_state=0).fit(frame, labels)
    assert same(classifier.posterior_, own.posterior_)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(classifier.predict_proba(frame), own.predict_proba(frame))


# ---- Rows on disk


def oracle(model: PBPRegressor, X: Array, y: Array, partition_bytes: int) -> Posterior:
    """Assign, shuffle and update row by row, as the docstring of `scratch` describes."""
    plan = Plan(Gaussian(), hidden=(10,), evidence_cap=model.evidence_cap, engine="reference")
    rows = np.column_stack([np.arange(len(y)), X, y])
    n_partitions = -(-rows.nbytes // partition_bytes)
    assign = default_rng((0, 0))
    partitions: list[list[int]] = [[] for _ in range(n_partitions)]
    for i in range(len(rows)):
        partitions[int(assign.random() * n_partitions)].append(i)
    random = RandomState(model.random_state)
    assigned = [np.array(partition) for partition in partitions if partition]
    exact = fit_standardizer(X, y)
    begun = training.start(plan, Inputs(X), y, random, exact)
    q, seed = begun.posterior, int(random.randint(2**31 - 1))
    assert sum(map(len, assigned)) == len(X)
    reference = ENGINES["reference"]
    for epoch in range(1, model.n_epochs + 1):
        order = default_rng((seed, epoch)).permutation(n_partitions)
        parts = np.array_split(order, -(-n_partitions // 4))
        for part, chosen in enumerate(parts):
            here = np.array([i for k in chosen for i in partitions[k]], int)
            here = here[default_rng((seed, epoch, 1 + part)).permutation(len(here))]
            Xs = (X[here] - exact.x_mean) / exact.x_scale
            ys = (y[here] - exact.y_mean) / exact.y_scale
            q, _ = reference.adf_pass(
                q,
                Xs,
                ys,
                np.arange(len(here)),
                likelihood=plan.likelihood,
                memory=plan.bound(len(X)),
            )
        q, _ = reference.refine_prior(q, 8.0)
    return q


@pytest.mark.parametrize("evidence_cap", [None, 2.0])
@pytest.mark.usefixtures("on_disk")
def test_a_fit_on_disk_matches_the_oracle(evidence_cap: float | None) -> None:
    X, y = made(300)
    model = fit(network(evidence_cap=evidence_cap, n_epochs=3), cut(X, y, [40, 41]))
    expected = oracle(network(evidence_cap=evidence_cap, n_epochs=3), X, y, 2000)
    np.testing.assert_allclose(flat(model.posterior_.m_w), flat(expected.m_w), 1e-8, 1e-10)
    np.testing.assert_allclose(flat(model.posterior_.v_w), flat(expected.v_w), 1e-8)
    assert model.n_samples_seen_ == 300
    assert [epoch.n_points for epoch in model.history_] == [300] * 3


@pytest.mark.usefixtures("on_disk")
def test_neither_blocks_nor_the_limit_change_a_bit_on_disk(tmp_path: Path) -> None:
    X, y = made()
    whole = fit(network(evidence_cap=2), [(X, y)])
    halves = fit(network(evidence_cap=2), cut(X, y, [3, 200]), memory_limit=LEAST)
    assert same(whole.posterior_, halves.posterior_)
    assert whole.history_ == halves.history_
    assert not same(
        whole.posterior_, network(evidence_cap=2).fit(X, y).posterior_
    )  # another shuffle
    other = fit(network(evidence_cap=2, random_state=1), [(X, y)])
    assert not same(whole.posterior_, other.posterior_)


@pytest.mark.usefixtures("on_disk")
def test_sorted_rows_are_as_good_as_shuffled_ones() -> None:
    X, y = made(3000)
    X_test, y_test = made(1000, seed=1)
    order = np.argsort(y)

    def score(X: Array, y: Array) -> float:
        model = fit(network(n_epochs=10, evidence_cap=3), cut(X, y, [1000, 2000]))
        return float(np.mean(model.predict_distribution(X_test).logpdf(y_test)))

    own = network(n_epochs=10, evidence_cap=3).fit(X, y)
    in_memory = float(np.mean(own.predict_distribution(X_test).logpdf(y_test)))
    assert score(X, y) > in_memory - 0.15
    assert score(X[order], y[order]) > in_memory - 0.15


@pytest.mark.usefixtures("on_disk")
def test_classes_missing_values_and_several_targets_go_to_disk_too() -> None:
    X, y = made(600)
    gaps = X.copy()
    gaps[::7, 2] = np.nan
    labels = np.where(y > 0.0, "high", np.where(y < -2.0, "low", "middle"))
    order = np.argsort(labels)  # a block has one class only
    three = PBPClassifier((10,), n_epochs=5, missing="marginalize", random_state=0)
    model = fit(three, cut(gaps[order], labels[order], [100, 300]))
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.score(gaps, labels) > 0.8
    both = fit(network(), cut(X, np.column_stack([y, -y]), [50]))
    assert both.n_outputs_ == 2
    assert np.corrcoef(both.predict(X).T)[0, 1] < -0.9
    tags = np.column_stack([y > 0.0, X[:, 2] > 0.0, X[:, 0] < 1.0]).astype(int)
    several = fit(PBPClassifier((10,), n_epochs=5, random_state=0), cut(X, tags, [50]))
    assert several.multilabel_
    assert (several.predict(X) == tags).mean() > 0.85


@pytest.mark.parametrize("options", [{}, {"missing": "marginalize"}, {"noise_tail": "heavy"}])
@pytest.mark.usefixtures("on_disk")
def test_a_constant_column_is_harmless(options: dict[str, Any]) -> None:
    X, y = made()
    X[:, 1] = 7.0
    model = fit(network(**options), cut(X, y, [10]))
    assert model.standardizer_.x_scale[1] == 1.0
    assert np.isfinite(model.predict(X)).all()


# ---- Parts of an epoch


PLANS = [
    Plan(Gaussian(), hidden=(5,)),
    Plan(Gaussian(), hidden=(5,), evidence_cap=2.0),
    Plan(Heavy(), hidden=(5,), noise_hidden=(3,)),
]


def epochs_in_parts(
    plan: Plan, begun: Fitted, n: int, n_parts: int, n_epochs: int, read: Callable[[int], Rows]
) -> Iterator[tuple[State, Epoch | None]]:
    """Make epochs over one shard, whose parts `read` gives."""
    setting = Setting(plan, begun.standardizer, Schedule((n,), n_parts, seed=0), n_epochs)

    def map_shards(call: Any, works: Sequence[Work]) -> list[Any]:
        return [update_part(lambda part: read(part.n_round), work) for work in works]

    return rounds(setting, State(begun.posterior), map_shards)


@pytest.mark.parametrize("plan", PLANS)
def test_one_part_is_an_epoch_in_memory_bit_for_bit(plan: Plan) -> None:
    X, y = made(120)
    begun = training.start(plan, Inputs(X), y, RandomState(0))
    *_, run = training.train(
        training.begin(plan, begun, Inputs(X), y, RandomState(1), n_epochs=4), [1] * 4
    )
    random = RandomState(1)

    def read(part: int) -> Rows:
        order = random.permutation(len(y))
        return Rows(X[order], None, y[order])

    *_, (state, epoch) = epochs_in_parts(plan, begun, len(y), 1, 4, read)
    assert same(state.posterior, run.fitted.posterior)
    assert epoch is not None
    assert epoch[:2] == run.fitted.epoch[:2]
    np.testing.assert_allclose(epoch.mean_log_Z, run.fitted.epoch.mean_log_Z, 1e-12)


def test_parts_without_bounds_are_one_epoch_bit_for_bit() -> None:
    plan = PLANS[0]
    X, y = made(120)
    begun = training.start(plan, Inputs(X), y, RandomState(0))

    def last(n_parts: int) -> Posterior:
        def read(part: int) -> Rows:
            rows = np.array_split(np.arange(len(y)), n_parts)[part]
            return Rows(X[rows], None, y[rows])

        *_, (state, _) = epochs_in_parts(plan, begun, len(y), n_parts, 2, read)
        return state.posterior

    assert same(last(1), last(7))


@given(
    n=st.integers(1, 200),
    n_columns=st.integers(1, 3),
    n_partitions=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(1, 60), max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_every_epoch_has_every_row_once(
    n: int, n_columns: int, n_partitions: int, seed: int, cuts: list[int]
) -> None:
    rows = np.zeros(n, [("x", float, (n_columns,))])
    rows["x"] = np.arange(n * n_columns).reshape(n, n_columns)
    shape = Shape(n, n_columns, n_partitions)
    with scratch(shape, seed, 0) as whole, scratch(shape, seed, 0) as in_blocks:
        whole.add(rows)
        for block in np.array_split(rows, len(cuts) + 1):
            in_blocks.add(block)
            in_blocks.write()
        whole.write()
        for epoch in (1, 2):
            parts = [whole.part(seed, epoch, k) for k in range(shape.n_parts)]
            together = np.concatenate(parts)
            assert np.array_equal(together[np.argsort(together["x"][:, 0])], rows)
            others = [in_blocks.part(seed, epoch, k) for k in range(shape.n_parts)]
            assert all(map(np.array_equal, parts, others))


# ---- Checkpoints


@pytest.mark.usefixtures("on_disk")
def test_a_fit_resumes_from_its_checkpoint_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = made()
    path = tmp_path / "fit.checkpoint"
    undisturbed = fit(network(evidence_cap=2), cut(X, y, [99]))
    interrupt(monkeypatch, 3, again=True)  # in the middle of the first epoch, and of later ones
    n_interrupts = 0
    while True:
        try:
            model = fit(network(evidence_cap=2), cut(X, y, [5, 6]), checkpoint=path)
            break
        except KeyboardInterrupt:
            n_interrupts += 1
    assert n_interrupts == 3
    assert same(model.posterior_, undisturbed.posterior_)
    assert model.history_ == undisturbed.history_
    assert model.log_evidence_ == undisturbed.log_evidence_


@pytest.mark.usefixtures("on_disk")
def test_checkpoints_of_other_fits_are_refused_in_words(tmp_path: Path) -> None:
    X, y = made()
    path = tmp_path / "fit.checkpoint"
    fit(network(), [(X, y)], checkpoint=path)
    with pytest.raises(CheckpointError, match="other data"):
        fit(network(), [(X, y + 1.0)], checkpoint=path)
    with pytest.raises(CheckpointError, match="n_epochs was 4 and is 5"):
        fit(network(n_epochs=5), [(X, y)], checkpoint=path)
    with pytest.raises(CheckpointError, match="out of core"):
        network().fit(X, y, checkpoint=path)


@pytest.mark.usefixtures("on_disk")
def test_a_callback_ends_the_fit_and_sees_every_epoch() -> None:
    X, y = made()
    seen: list[int] = []

    def look(epoch: Epoch) -> bool:
        seen.append(epoch.n_iter)
        return epoch.n_iter == 2

    assert fit(network(), [(X, y)], callback=look).n_iter_ == 2
    assert seen == [1, 2]

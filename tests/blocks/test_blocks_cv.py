"""Weights, known errors and cross-validation on disk: as in memory, and no row is learned twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState, default_rng

from block_rows import cut, made, network, same
from block_rows import small_cv as small
from block_rows import weights as bits
from limits import Limits
from probprop import Candidate, PBPClassifierCV, PBPRegressor, fit, load
from probprop._types import Array
from probprop.data.scratch import LEAST, Scratch
from probprop.data.shards import Folds
from probprop.inference import checkpoint

pytestmark = pytest.mark.usefixtures("few_epochs")


# ---- Weights and known errors


def noise(model: PBPRegressor) -> float:
    return float(np.sqrt(model.noise_variance_))


@pytest.mark.usefixtures("on_disk")
def test_weights_and_known_errors_count_as_in_memory() -> None:
    random = RandomState(0)
    X, y = made(2000)
    w, e = random.randint(0, 4, len(y)).astype(float), random.uniform(0.0, 2.0, len(y))
    y = y + e * random.standard_normal(len(y))
    net = network(n_epochs=10, evidence_cap=3)
    blocks = [(X[:700], y[:700], w[:700], e[:700]), (X[700:], y[700:], w[700:], e[700:])]
    model, alone = fit(net, blocks), net.fit(X, y, sample_weight=w, y_std=e)
    assert model.n_samples_seen_ == (w > 0.0).sum()
    assert model.mean_sample_weight_ == pytest.approx(alone.mean_sample_weight_, rel=1e-12)
    assert noise(model) == pytest.approx(noise(alone), rel=0.2)
    assert np.corrcoef(model.predict(X), alone.predict(X))[0, 1] > 0.98
    plain = fit(net, [block[:2] for block in blocks])
    assert noise(plain) > 1.5 * noise(model)
    scaled = fit(net, [(a, b, 1e6 * c, d) for a, b, c, d in blocks])
    assert same(scaled.posterior_, model.posterior_)


@pytest.mark.usefixtures("on_disk")
def test_weights_and_errors_are_columns_of_files(tmp_path: Path) -> None:
    X, y = made(600)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=np.arange(600) // 300, e=0.1)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = fit(network(), tmp_path / "rows.csv", "y", weight="w", error="e")
    assert model.n_samples_seen_ == 300  # the first chunk may have weights of 0 alone
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    rest = frame[300:].reset_index(drop=True)
    alone = fit(network(), rest, "y", weight="w", error="e", memory_limit=LEAST)
    assert same(model.posterior_, alone.posterior_)


# ---- Cross-validation


@pytest.mark.usefixtures("on_disk")
def test_choice_on_a_sample_networks_on_all_rows(tmp_path: Path, limits: Limits) -> None:
    limits.selected_on(800)
    X, y = made(3000)
    new_X, new_y = made(1000, seed=1)
    shares: list[float] = []
    model = fit(small(), cut(X, y, [1000, 1001]), callback=shares.append)
    assert model.n_samples_seen_ == 3000
    assert sum(member.n_samples_seen_ for member in model.estimators_) == 3000 * len(model.groups_)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    rows = model.oof_rows_
    assert len({*rows}) == 800
    log_p = model.oof_predictive_.logpdf(y[rows]).mean()
    of_new = model.predict_distribution(new_X).logpdf(new_y).mean()
    assert abs(log_p - of_new) < 0.2  # calibrated, and the rows are those that were predicted
    alone = small().fit(X, y).predict_distribution(new_X).logpdf(new_y).mean()
    assert of_new > alone - 0.1
    np.testing.assert_array_equal(model.bounds_.low, X.min(axis=0))
    again = fit(small(), [(X, y)], memory_limit=LEAST)
    assert bits(again) == bits(model)  # neither blocks nor the limit change a bit
    model.save(tmp_path / "model.pbp")
    assert load(tmp_path / "model.pbp").predict(new_X).tobytes() == model.predict(new_X).tobytes()


@pytest.mark.usefixtures("on_disk")
def test_a_network_never_learns_the_rows_of_its_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets of the first fold are shifted: only the other network changes."""
    X, y = made(400)
    files: list[Scratch] = []
    write = Scratch.write
    monkeypatch.setattr(Scratch, "write", lambda file: (files.append(file), write(file)))

    def fitted(y: Array) -> Any:
        return fit(
            small(candidates=[Candidate(hidden_layer_sizes=(4,), noise="constant")]), [(X, y)]
        )

    first = fitted(y)
    folds = Folds(RandomState(0).randint(2**31 - 1), n_folds=2)
    n_partitions = files[0].shape.n_partitions
    partition = (default_rng((0, 0)).random(len(y)) * n_partitions).astype(int)
    shifted = y.copy()
    for k in range(n_partitions):
        rows = np.flatnonzero(partition == k)
        own = np.setdiff1d(np.arange(len(rows)), folds.learned(k, len(rows), fold=0))
        shifted[rows[own]] += 3.0 * y.std()
    second = fitted(shifted)
    assert first.estimators_[0].history_[:8] == second.estimators_[0].history_[:8]
    assert first.estimators_[1].history_ != second.estimators_[1].history_


@pytest.mark.usefixtures("on_disk")
def test_a_choice_and_its_networks_continue_from_their_checkpoints(
    tmp_path: Path, limits: Limits
) -> None:
    limits.seconds_between_checkpoints(0.0)
    X, y = made(400)

    def fitted(stop_at: float, path: Path | None) -> Any:
        def stop(share: float) -> None:
            if share > stop_at:
                raise KeyboardInterrupt

        return fit(small(), [(X, y)], checkpoint=path, callback=stop)

    never_stopped = fitted(2.0, None)
    for share in (0.6, 0.9):
        with pytest.raises(KeyboardInterrupt):
            fitted(share, tmp_path / "run")
    resumed = fitted(2.0, tmp_path / "run")
    assert bits(resumed) == bits(never_stopped)
    assert repr(resumed.calibration_) == repr(never_stopped.calibration_)
    with pytest.raises(checkpoint.CheckpointError, match="random_state was 0 and is 1"):
        fit(small(random_state=1), [(X, y)], checkpoint=tmp_path / "run")


@pytest.mark.usefixtures("on_disk")
def test_weights_labels_and_missing_values_are_cross_validated() -> None:
    X, y = made(600)
    X[::7, 2] = np.nan
    w = np.arange(600) % 3
    model = fit(small(missing="marginalize"), [(X, y, w)])
    assert model.n_samples_seen_ == 400
    assert model.calibration_.n_rows == pytest.approx(400, rel=1e-6)
    labels = np.where(y > 0.0, "high", "low")
    filled, only = np.nan_to_num(X), [Candidate(hidden_layer_sizes=(8,))]
    classes = fit(small(PBPClassifierCV, candidates=only), [(filled, labels)])
    assert classes.score(filled, labels) > 0.8


@pytest.mark.usefixtures("on_disk")
def test_a_limit_that_the_sample_would_exceed_is_refused() -> None:
    X = RandomState(0).standard_normal((20_000, 60))
    words = "too small for cross-validation with 60 features: give at least 908 MB"
    with pytest.raises(ValueError, match=words):
        fit(small(), [(X, X[:, 0])], memory_limit=LEAST)

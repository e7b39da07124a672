"""Cross-validated estimators on a cluster: folds as tasks, and networks of all rows by rounds."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from distributed import Client

from block_rows import small_cv as small
from block_rows import weights as bits
from dask_clusters import in_files, processes, table
from limits import Limits
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV, load
from probprop.data import fit
from probprop.data.cluster import load_shards
from probprop.data.fitting import columnwise, rows_here, rows_numbered, source_of
from probprop.data.shards import DiskRows, Folds, MemoryRows
from probprop.inference import checkpoint
from probprop.table import TableModel

# A round is two tasks that take milliseconds: thousands of them are long.
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("few_epochs")]

FEATURES = ["a", "b", "c"]


# ---- The raw rows of numbers such as `oof_rows_`


@pytest.mark.parametrize("where", ["memory", "disk", "cluster"])
def test_rows_are_read_again_by_their_numbers(
    tmp_path: Path, client: Client, limits: Limits, where: str
) -> None:
    frame = table(600).assign(place=np.arange(600.0))
    frame.loc[::7, "y"] = np.nan  # such rows have no number
    pattern = in_files(frame, tmp_path / "data", 5)
    counted = frame[frame["y"].notna()]
    numbers = np.random.RandomState(0).permutation(len(counted))[:100]
    source = source_of(small(), pattern, columnwise("y"))
    if where == "cluster":
        found = rows_numbered(source, load_shards(client, source, None), numbers)
    else:
        if where == "disk":
            limits.on_disk()
        with rows_here(source, small(), 10**9) as rows:
            assert isinstance(rows, DiskRows if where == "disk" else MemoryRows)
            found = rows_numbered(source, rows, numbers)
    np.testing.assert_array_equal(found["place"], counted["place"].iloc[numbers])
    np.testing.assert_array_equal(found.index, numbers)


# ---- All rows by rounds


def test_choice_on_a_sample_networks_on_all_rows(
    client: Client, tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits.selected_on(1500)
    frame, new = table(6000), table(1000, seed=1)
    pattern = in_files(frame, tmp_path / "rows")
    shares: list[float] = []
    model = fit(
        small(),
        pattern,
        target="y",
        client=client,
        n_shards=2,
        rounds=4,
        callback=shares.append,
    )
    assert isinstance(model, PBPRegressorCV)
    assert len(model.estimators_) == 2
    assert model.n_samples_seen_ == 6000
    assert all(member.n_samples_seen_ == 3000 for member in model.estimators_)
    assert list(model.feature_names_in_) == FEATURES
    assert shares == sorted(shares)
    assert shares[-1] == 1.0

    # Out-of-fold samples are rows of the files, each predicted by the network of its fold.
    assert len(model.oof_rows_) == 1500
    assert len(set(model.oof_rows_)) == 1500
    rows = frame.iloc[model.oof_rows_]
    log_p = model.oof_predictive_.logpdf(rows["y"])
    within = np.abs(rows["y"] - model.oof_predictive_.mean) < 2.0 * model.oof_predictive_.std
    assert 0.92 < within.mean() < 0.98
    of_new = model.predict_distribution(new[FEATURES]).logpdf(new["y"])
    assert abs(log_p.mean() - of_new.mean()) < 0.15  # out-of-fold calibration holds on new rows

    # As good as on one machine, and with its range.
    alone = small().fit(frame[FEATURES], frame["y"])
    there = alone.predict_distribution(new[FEATURES]).logpdf(new["y"])
    assert of_new.mean() > there.mean() - 0.1
    np.testing.assert_array_equal(model.calibration_.range.low, frame[FEATURES].min())
    np.testing.assert_array_equal(model.calibration_.range.high, frame[FEATURES].max())
    np.testing.assert_array_equal(model.bounds_.low, frame[FEATURES].min())
    np.testing.assert_array_equal(model.bounds_.high, frame[FEATURES].max())

    model.save(tmp_path / "model.pbp")
    again = load(tmp_path / "model.pbp")
    assert again.predict(new[FEATURES]).tobytes() == model.predict(new[FEATURES]).tobytes()
    assert again.groups_[0].n_epochs == model.groups_[0].n_epochs
    assert again.partial_fit(new[FEATURES], new["y"]).n_samples_seen_ == 7000


@pytest.mark.slow
def test_a_far_value_is_bounded_in_the_shards(client: Client, tmp_path: Path) -> None:
    frame, new = table(800), table(200, seed=1)
    one = small(candidates=[Candidate(hidden_layer_sizes=(8,), noise="constant")])
    clean = fit(one, in_files(frame, tmp_path / "clean"), target="y", client=client, n_shards=2)
    frame.loc[7, FEATURES[0]] = 1e9
    model = fit(one, in_files(frame, tmp_path / "far"), target="y", client=client, n_shards=2)
    rest = frame[FEATURES].drop(index=7)
    np.testing.assert_array_equal(model.bounds_.high, rest.max())
    rmse, expected = (np.std(m.predict(new[FEATURES]) - new["y"]) for m in (model, clean))
    assert rmse < 1.25 * expected  # seeds alone change it by a fifth


def test_a_network_never_learns_the_rows_of_its_fold(client: Client) -> None:
    """Targets of the first fold are outliers: only the other network is trained on them."""
    frame = table(400)
    X = da.from_array(frame[FEATURES].to_numpy(), chunks=(200, 3))
    dealt = Folds(np.random.RandomState(0).randint(2**31 - 1), n_folds=2)
    everything = np.arange(200)
    own = [200 * k + np.setdiff1d(everything, dealt.learned(k, 200, fold=0)) for k in (0, 1)]
    wild = frame["y"].to_numpy().copy()
    # Not so far that the other fold has less than a tenth of the scale of all targets.
    wild[np.concatenate(own)] += 3.0 * wild.std()

    def fitted(y: Any) -> Any:
        estimator = small(candidates=[Candidate(hidden_layer_sizes=(4,), noise="constant")])
        targets = da.from_array(np.asarray(y), chunks=200)
        return fit(estimator, (X, targets), client=client, n_shards=2, rounds=2)

    models = fitted(frame["y"]), fitted(wild)
    np.testing.assert_array_equal(models[0].oof_rows_, np.arange(400))
    first, second = ([model.estimators_[i].history_[:8] for model in models] for i in (0, 1))
    assert first[0] == first[1]
    assert second[0] != second[1]


def test_weights_count_in_networks_and_in_calibration(client: Client, tmp_path: Path) -> None:
    frame = table(800).assign(w=np.arange(800) % 3)
    pattern = in_files(frame, tmp_path / "rows", n_files=2)
    only = [Candidate(hidden_layer_sizes=(8,), noise="constant")]
    options = {"target": "y", "client": client, "n_shards": 2, "rounds": 2}
    model = fit(small(candidates=only), pattern, weight="w", **options)
    kept = frame[frame["w"] > 0]
    assert model.n_samples_seen_ == len(kept)
    assert model.calibration_.n_rows == pytest.approx(len(kept), rel=1e-6)
    assert model.mean_sample_weight_ == pytest.approx(kept["w"].mean(), rel=1e-12)
    frame["w"] *= 1e6
    scaled = fit(
        small(candidates=only), in_files(frame, tmp_path / "scaled", 2), weight="w", **options
    )
    rows = frame[["a", "b", "c"]]
    np.testing.assert_array_equal(scaled.predict(rows), model.predict(rows))
    assert model.n_features_in_ == 3


@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
def test_folds_of_one_value_have_the_scale_of_all_rows(client: Client, tmp_path: Path) -> None:
    only = [Candidate(hidden_layer_sizes=(8,), noise="constant")]
    free = small(candidates=only, support=None)  # targets from 0 to 1 are taken for shares
    stds = []
    for factor in (1.0, 1000.0):
        frame = table(200).assign(y=0.0)
        frame.loc[frame.index[17], "y"] = factor
        pattern = in_files(frame, tmp_path / f"{factor}", n_files=2)
        model = fit(free, pattern, target="y", client=client, n_shards=2, rounds=2)
        stds.append(model.predict(frame[["a", "b", "c"]], return_std=True)[1] / factor)
    np.testing.assert_allclose(stds[1], stds[0], rtol=1e-6)


def test_classes_text_and_missing_values_become_a_table_model(
    client: Client, tmp_path: Path
) -> None:
    frame = table(1200)
    frame["kind"] = np.where(frame["a"] > 0.0, "warm", "cold")
    frame["label"] = np.where(frame["y"] > 50.0, "high", "low")
    frame.loc[frame.index[:300:10], "b"] = np.nan  # in the first file only
    pattern = in_files(frame.drop(columns="y"), tmp_path / "rows", n_files=2)
    model = fit(
        small(
            PBPClassifierCV, candidates=[Candidate(hidden_layer_sizes=(8,))], missing="marginalize"
        ),
        pattern,
        target="label",
        client=client,
        n_shards=2,
        rounds=2,
    )
    assert isinstance(model, TableModel)
    assert list(model.classes) == ["high", "low"]
    assert 0.2 < model.estimator.calibration_.temperature < 5.0
    right = model.predict(frame) == frame["label"]
    assert right.mean() > 0.8


def test_what_a_cluster_does_not_take_is_refused(client: Client, tmp_path: Path) -> None:
    frame = pd.concat([table(100), table(100)], axis=0)
    pattern = in_files(frame, tmp_path / "rows", n_files=2)

    def refused(kind: type[Exception], match: str, estimator: Any, **options: Any) -> None:
        with pytest.raises(kind, match=match):
            fit(estimator, pattern, client=client, **{"target": "y", **options})

    splits = [(np.arange(10), np.arange(10, 20))]
    refused(
        TypeError,
        'cv must be "auto" or an int for rows that are not all in memory',
        small(cv=splits),
    )
    refused(ValueError, "accepts several targets if", small(), target=["y", "a"])
    refused(ValueError, "all above 0", small(candidates=[Candidate(power=0.5)]), target="a")
    refused(
        ValueError,
        "random_state must be an int",
        small(random_state=None),
        checkpoint=tmp_path / "run",
    )


def test_a_choice_and_its_networks_resume_from_their_checkpoints(
    client: Client, tmp_path: Path, limits: Limits
) -> None:
    limits.seconds_between_checkpoints(0.0)
    pattern = in_files(table(600), tmp_path / "rows", n_files=2)

    class Stop(Exception):
        pass

    def fitted(stop_at: float, path: Path | None) -> Any:
        def stop(share: float) -> None:
            if share > stop_at:
                raise Stop

        options = {"n_shards": 2, "rounds": 2, "checkpoint": path, "callback": stop}
        return fit(small(), pattern, target="y", client=client, **options)

    never_stopped = fitted(2.0, None)
    for share in (0.2, 0.6, 0.9):
        with pytest.raises(Stop):
            fitted(share, tmp_path / "run")
    resumed = fitted(2.0, tmp_path / "run")
    assert bits(resumed) == bits(never_stopped)
    assert repr(resumed.calibration_) == repr(never_stopped.calibration_)
    names = {path.name for path in tmp_path.glob("run*")}
    assert {"run.choice", "run.0.0.8", "run.0.1.16"} <= names
    with pytest.raises(checkpoint.CheckpointError, match="random_state was 0 and is 1"):
        fit(
            small(random_state=1),
            pattern,
            target="y",
            client=client,
            n_shards=2,
            checkpoint=tmp_path / "run",
        )


def test_workers_killed_in_the_choice_and_in_the_rounds_change_nothing(tmp_path: Path) -> None:
    pattern = in_files(table(600), tmp_path / "rows", n_files=2)
    with processes(2) as own:
        killed: list[float] = []

        def kill(share: float) -> None:
            """Kill one worker in the choice, which is 0.3 of the work, and one after it."""
            if len(killed) < 2 and share > 0.6 * len(killed):
                os.kill(next(iter(own.run(os.getpid).values())), signal.SIGKILL)
                killed.append(share)

        options = {"target": "y", "client": own, "n_shards": 2, "rounds": 2}
        undisturbed = fit(small(), pattern, **options)
        disturbed = fit(small(), pattern, callback=kill, **options)
    assert len(killed) == 2
    assert killed[0] < 0.3 < killed[1]
    assert bits(disturbed) == bits(undisturbed)
    assert repr(disturbed.calibration_) == repr(undisturbed.calibration_)

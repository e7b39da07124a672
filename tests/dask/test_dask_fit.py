"""Fits on a cluster of two processes: right, the same on one, and clear about bad files."""

from __future__ import annotations

from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

from dask_clusters import in_files, processes, table
from probprop import PBPClassifier, PBPRegressor, load
from probprop.data import ShardWarning, fit, predict
from probprop.inference.posterior import flat
from probprop.table import TableError, TableModel

pytestmark = pytest.mark.process


def small(**changed: object) -> PBPRegressor:
    parameters = {"n_epochs": 8, "evidence_cap": 3, "random_state": 0} | changed
    return PBPRegressor((12,), **parameters)


def bits(model: PBPRegressor) -> tuple[bytes, bytes, object]:
    q = model.posterior_
    return flat(q.m_w).tobytes(), flat(q.v_w).tobytes(), model.history_


def test_frames_arrays_and_files_give_the_model_of_one_machine(
    client: Client, tmp_path: Path
) -> None:
    frame, new = table(), table(1000, seed=1)
    pattern = in_files(frame, tmp_path)
    alone = small().fit(frame[["a", "b", "c"]], frame["y"])
    ddf = dd.read_parquet(pattern)
    X = da.from_array(frame[["a", "b", "c"]].to_numpy(), chunks=(1500, 3))
    y = da.from_array(frame["y"].to_numpy(), chunks=1500)
    seen: list[int] = []
    from_files = fit(
        small(),
        pattern,
        target="y",
        client=client,
        callback=lambda epoch: bool(seen.append(epoch.n_iter)),
    )
    from_frame = fit(small(), ddf, target="y", client=client)
    from_arrays = fit(small(), (X, y), client=client)
    assert isinstance(from_files, PBPRegressor)
    assert bits(from_files) == bits(from_frame) == bits(from_arrays)
    assert seen == list(range(1, 9))
    assert list(from_files.feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(from_arrays, "feature_names_in_")
    assert from_files.n_samples_seen_ == 6000
    np.testing.assert_allclose(
        from_files.standardizer_.x_scale, alone.standardizer_.x_scale, rtol=1e-12
    )
    np.testing.assert_allclose(from_files.standardizer_.y_mean, alone.standardizer_.y_mean)

    def log_likelihood(model: PBPRegressor) -> float:
        return float(model.predict_distribution(new[["a", "b", "c"]]).logpdf(new["y"]).mean())

    assert log_likelihood(from_files) > log_likelihood(alone) - 0.05
    from_files.save(tmp_path / "model.pbp")  # an ordinary estimator
    assert bits(load(tmp_path / "model.pbp")) == bits(from_files)

    predicted = predict(from_files, ddf)
    mean, std = from_files.predict(frame[["a", "b", "c"]], return_std=True)
    done = predicted.compute()
    np.testing.assert_array_equal(done["mean"], mean)
    np.testing.assert_array_equal(done["std"], std)
    assert list(done.columns) == list(predicted.columns)
    np.testing.assert_array_equal(predict(from_arrays, X).compute()["mean"], mean)
    np.testing.assert_array_equal(predict(from_files, pattern).compute()["mean"], mean)


def test_text_files_and_rows_in_memory_are_the_same_rows(client: Client, tmp_path: Path) -> None:
    frame = table(600)
    frame["kind"] = np.where(frame["a"] > 0.0, "warm", "unknown")
    options = {"target": "y", "client": client, "n_shards": 2}
    halves = frame[:300], frame[300:]
    for i, half in enumerate(halves):
        half.to_csv(tmp_path / f"{i}.csv", index=False)
        half.to_parquet(tmp_path / f"{i}.parquet", index=False)
    network, na = small(missing="marginalize"), ["unknown"]
    models = [fit(network, str(tmp_path / f"*.{k}"), na=na, **options) for k in ("csv", "parquet")]
    assert bits(models[0].estimator) == bits(models[1].estimator)
    assert models[0].categories == {"kind": ["warm", "(missing)"]}
    numbers = frame[["a", "b", "c"]]
    from_frame = fit(small(), frame[["a", "b", "c", "y"]], **options)
    from_arrays = fit(small(), (numbers, frame["y"]), client=client, n_shards=2)
    assert bits(from_frame) == bits(from_arrays)
    assert list(from_arrays.feature_names_in_) == ["a", "b", "c"]


def test_one_worker_and_two_give_the_same_bits(client: Client, tmp_path: Path) -> None:
    pattern = in_files(table(), tmp_path, 6)
    on_two = fit(small(), pattern, target="y", client=client, n_shards=4)
    with processes(1) as one:
        on_one = fit(small(), pattern, target="y", client=one, n_shards=4)
    assert bits(on_one) == bits(on_two)
    others = fit(small(), pattern, target="y", client=client, n_shards=2, rounds=3)
    assert bits(others) != bits(on_two)


def test_text_dates_and_missing_values_match_a_table(client: Client, tmp_path: Path) -> None:
    frame = table(3000)
    rng = np.random.RandomState(0)
    frame["kind"] = rng.choice(["apple", "pear"], len(frame))
    frame.loc[2990:, "kind"] = "quince"  # in the last file only
    frame["ripe"] = rng.uniform(size=len(frame)) < 0.5
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(frame)), "h")
    frame.loc[::10, "a"] = np.nan
    frame.loc[5::10, "kind"] = None
    pattern = in_files(frame, tmp_path, 3)
    with pytest.raises(TableError, match=r"part-\d\.parquet: Missing values in column"):
        fit(small(), pattern, target="y", client=client)
    model = fit(small(missing="marginalize"), pattern, target="y", client=client)
    assert isinstance(model, TableModel)
    assert model.categories == {"kind": ["apple", "pear", "quince", "(missing)"]}
    from probprop.table import fit_table_model

    alone = fit_table_model(frame, "y", estimator=small(missing="marginalize"))
    assert model.encoded_names == alone.encoded_names
    ours, theirs = model.estimator.standardizer_, alone.estimator.standardizer_
    np.testing.assert_allclose(ours.x_mean, theirs.x_mean, rtol=1e-9, atol=1e-12)
    predicted = predict(model, dd.read_parquet(pattern)).compute()
    np.testing.assert_array_equal(predicted["mean"], model.predict(frame))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes(client: Client, tmp_path: Path, n_classes: int) -> None:
    frame = table(4000)
    edges = np.quantile(frame["y"], np.arange(1, n_classes) / n_classes)
    names = np.array(["low", "middle", "high"], object)
    frame["class"] = names[np.digitize(frame.pop("y"), edges)]
    pattern = in_files(frame, tmp_path)
    network = PBPClassifier((12,), n_epochs=6, random_state=0)
    model = fit(network, pattern, target="class", client=client)
    assert isinstance(model, PBPClassifier)
    assert list(model.classes_) == sorted(names[:n_classes])
    alone = PBPClassifier((12,), n_epochs=6, random_state=0)
    X = frame[["a", "b", "c"]]
    alone.fit(X, frame["class"])
    assert model.score(X, frame["class"]) > alone.score(X, frame["class"]) - 0.03
    predicted = predict(model, dd.read_parquet(pattern))
    done = predicted.compute()
    assert list(done.columns) == list(predicted.columns)
    np.testing.assert_array_equal(done["predicted_class"], model.predict(X))


def test_several_targets(client: Client, tmp_path: Path) -> None:
    frame = table(3000)
    frame["z"] = frame["a"] - frame["c"]
    pattern = in_files(frame, tmp_path)
    model = fit(small(n_epochs=3, random_state=5), pattern, target=["y", "z"], client=client)
    assert model.predict(frame[["a", "b", "c"]]).shape == (3000, 2)
    columns = predict(model, dd.read_parquet(pattern)).compute().columns
    assert list(columns[:2]) == ["0_mean", "0_std"]


# ---- What is wrong with the data


def test_shards_sorted_by_the_target_are_warned_of(client: Client, tmp_path: Path) -> None:
    pattern = in_files(table(3000).sort_values("y"), tmp_path, 2)
    with pytest.warns(ShardWarning, match="variance of the target lies between the 2") as told:
        fit(small(n_epochs=1), pattern, target="y", client=client)
    assert told[0].filename == __file__
    frame = table(3000).sort_values("y")
    frame["y"] = np.repeat(["u", "v", "w"], 1000)
    pattern = in_files(frame, tmp_path, 2)
    with pytest.warns(ShardWarning, match="as if the rows were sorted by it"):
        fit(PBPClassifier((5,), n_epochs=1), pattern, target="y", client=client)


def test_an_empty_file_and_an_empty_partition_are_named(client: Client, tmp_path: Path) -> None:
    pattern = in_files(table(400), tmp_path, 3)
    table(0).to_parquet(tmp_path / "part-1.parquet", index=False)
    with pytest.raises(TableError, match=r"part-1\.parquet has no rows: leave it out"):
        fit(small(), pattern, target="y", client=client)
    ddf = dd.from_pandas(table(400).sort_values("a", ignore_index=True), npartitions=4)
    low, high = ddf.partitions[2].compute()["a"].quantile([0.0, 1.0])
    with pytest.raises(TableError, match="Partition 2 has no rows"):
        fit(small(), ddf[(ddf["a"] < low) | (ddf["a"] > high)], target="y", client=client)
    X = da.from_array(np.arange(20.0).reshape(10, 2), chunks=(5, 2))
    X = X[X[:, 0] < 10.0]
    with pytest.raises(ValueError, match=r"block 1: .*0 sample"):
        fit(small(), (X, X[:, 0]), client=client)


@pytest.mark.parametrize("which", [0, 2])
def test_a_column_missing_in_one_file(client: Client, tmp_path: Path, which: int) -> None:
    pattern = in_files(table(400), tmp_path, 3)
    path = tmp_path / f"part-{which}.parquet"
    pd.read_parquet(path).drop(columns="b").to_parquet(path, index=False)
    with pytest.raises(TableError, match=rf"part-{which}\.parquet has no column 'b'"):
        fit(small(), pattern, target="y", client=client)
    with pytest.raises(TableError, match=r"part-\d\.parquet has no column 'price'"):
        fit(small(), pattern, target="price", client=client)


def test_a_type_that_differs_between_files(client: Client, tmp_path: Path) -> None:
    pattern = in_files(table(400), tmp_path, 3)
    path = tmp_path / "part-2.parquet"
    pd.read_parquet(path).assign(b="many").to_parquet(path, index=False)
    message = r"Column 'b' has text in .*part-2\.parquet, but numbers in .*part-0\.parquet"
    with pytest.raises(TableError, match=message):
        fit(small(), pattern, target="y", client=client)
    pd.read_parquet(path).assign(b=1.0, y="many").to_parquet(path, index=False)
    with pytest.raises(TableError, match=r"part-2\.parquet.*target 'y' must be numeric"):
        fit(small(), pattern, target="y", client=client)
    path.write_bytes(b"PAR1 but nothing else")
    with pytest.raises(TableError, match=r"part-2\.parquet is damaged or is not a Parquet file"):
        fit(small(), pattern, target="y", client=client)


def test_other_things_are_refused(client: Client, tmp_path: Path) -> None:
    pattern = in_files(table(400), tmp_path, 3)
    with pytest.raises(TypeError, match="target is missing"):
        fit(small(), pattern, client=client)
    with pytest.raises(TypeError, match="an iterable of blocks is for one machine"):
        fit(small(), [(np.zeros((9, 2)), np.zeros(9))], client=client)
    with pytest.raises(TypeError, match="X must be a dask DataFrame"):
        predict(small(), table(10))
    with pytest.raises(ValueError, match="memory_limit is for one machine"):
        fit(small(), pattern, target="y", client=client, memory_limit="2GB")
    with pytest.raises(ValueError, match="rounds is for a cluster"):
        fit(small(), pattern, target="y", rounds=3)
    with pytest.raises(TypeError, match="estimator must be a PBPRegressor"):
        fit("PBP", pattern, target="y", client=client)
    with pytest.raises(ValueError, match="n_shards == 9, but there are only 3 partitions"):
        fit(small(), pattern, target="y", client=client, n_shards=9)
    with pytest.raises(TableError, match="no file matches"):
        fit(small(), str(tmp_path / "none*.parquet"), target="y", client=client)
    with pytest.raises(ValueError, match="block 0: Input X contains NaN"):
        fit(small(), (da.full((9, 2), np.nan), da.ones(9)), client=client)
    with pytest.raises(ValueError, match="coverage must be in the range"):
        predict(small(), pattern, coverage=1.5)


def test_weights_and_known_errors_are_columns(client: Client, tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    frame = table(2000).assign(w=rng.randint(0, 4, 2000), e=rng.uniform(0.0, 2.0, 2000))
    frame["y"] += frame["e"] * rng.standard_normal(2000)
    pattern = in_files(frame, tmp_path, 2)
    options = {"target": "y", "weight": "w", "client": client, "n_shards": 1}
    model = fit(small(), pattern, error="e", **options)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    kept = frame[frame["w"] > 0]
    assert model.n_samples_seen_ == len(kept)
    known = {"sample_weight": kept["w"], "y_std": kept["e"]}
    alone = small(n_shards=8).fit(kept[["a", "b", "c"]], kept["y"], **known)
    plain = fit(small(), pattern, **options)  # without the errors

    def noise(model: PBPRegressor) -> float:
        return float(np.sqrt(model.noise_variance_))

    assert abs(noise(model) / noise(alone) - 1.0) < 0.2
    assert noise(plain) > 1.5 * noise(model)
    for factor in (1e-6, 1e6):  # two shards: the mean is over all of them
        scaled = in_files(frame.assign(w=factor * frame["w"]), tmp_path / f"{factor}", 2)
        both = [fit(small(), p, **options | {"n_shards": 2}) for p in (pattern, scaled)]
        np.testing.assert_array_equal(both[1].posterior_.m_w[0], both[0].posterior_.m_w[0])
        assert both[0].mean_sample_weight_ == pytest.approx(kept["w"].mean(), rel=1e-12)
        assert both[1].mean_sample_weight_ == pytest.approx(factor * kept["w"].mean(), rel=1e-12)
    with pytest.raises(TableError, match=r"part-.\.parquet.*numbers of 0 or more"):
        fit(small(), pattern, target="y", weight="a", client=client)
    with pytest.raises(ValueError, match="PBPClassifier does not accept known errors"):
        fit(PBPClassifier(), pattern, target="w", error="e", client=client)

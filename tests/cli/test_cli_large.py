"""Tables larger than the memory limit, several files as one table, and streams of rows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState

import probprop
from block_rows import interrupt
from cli_tables import call, homes, write_homes
from limits import Limits
from probprop.cli import judging, output
from probprop.inference.posterior import flat

Captured = pytest.CaptureFixture[str]
FIT = "fit homes.csv --target price --drop id --hidden-layer-sizes 10 --n-epochs 3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_homes(tmp_path)
    return tmp_path


@pytest.fixture
def too_large(limits: Limits) -> None:
    """Let every table be larger than memory, in chunks of a few rows and small partitions."""
    limits.tables_above_memory()
    limits.on_disk(4000)
    limits.chunks_of(90)


def weights(path: str) -> np.ndarray:
    return flat(probprop.load(path).estimator.posterior_.m_w)


@pytest.mark.usefixtures("too_large")
def test_a_large_table_is_fitted_in_blocks_and_scored(capfd: Captured) -> None:
    assert call(f"{FIT} --memory-limit 2GB -o large.pbp") == 0
    out, err = capfd.readouterr()
    assert "the table would take about 12 GB, more than the memory limit of 2 GB" in err
    assert "on disk" in err
    assert "on a test set of" in err
    assert "RMSE" in out
    assert err.index("wrote large.pbp") < err.index(
        "on a test set of"
    )  # what fails later leaves it
    assert call("predict large.pbp new.csv -o predicted.csv") == 0
    frame = homes()[500:550]
    predicted = pd.read_csv("predicted.csv")["mean"]
    assert np.corrcoef(predicted, frame["price"])[0, 1] > 0.5
    [(mean, std)] = probprop.load("large.pbp").baseline
    price = homes()[:500]["price"]  # a tenth of which is the validation set
    assert (mean, std) == pytest.approx((price.mean(), price.std()), rel=0.1)
    assert call(f"{FIT} --memory-limit 3GB -o again.pbp") == 0
    assert np.array_equal(weights("large.pbp"), weights("again.pbp"))
    assert call(f"{FIT} --random-state 1 -o other.pbp") == 0
    assert not np.array_equal(weights("large.pbp"), weights("other.pbp"))


@pytest.mark.usefixtures("too_large")
def test_rows_that_name_themselves_and_classes(capfd: Captured) -> None:
    frame = homes()
    frame["id"] = [f"home {i}" for i in range(len(frame))]
    frame["price"] = np.where(frame["price"] > 3e5, "dear", "cheap")
    frame.loc[:4, "price"] = np.nan
    frame.to_csv("homes.csv", index=False)
    assert call("fit homes.csv --target price --n-epochs 3 -o classes.pbp") == 0
    err = capfd.readouterr().err
    assert "dropped 'id': looks like an identifier" in err
    assert "dropped 5 rows without 'price'" in err
    assert "2 classes" in err


@pytest.mark.usefixtures("too_large")
def test_a_target_that_the_first_rows_hide_must_be_named(capfd: Captured) -> None:
    frame = homes().sort_values("new")
    frame.assign(price=frame["new"].astype(int)).to_csv("homes.csv", index=False)
    assert call(f"{FIT} -o large.pbp") == 1
    assert "'price' is 0 in all of the first 90 rows" in capfd.readouterr().err
    assert call(f"{FIT} --task classification -o large.pbp") == 0
    frame.assign(price=np.arange(len(frame)) // 50).to_csv("homes.csv", index=False)
    capfd.readouterr()
    assert call(f"{FIT} -o large.pbp") == 1
    assert "two different integers in the first rows, but 12 in all" in capfd.readouterr().err
    assert call(f"{FIT} --task regression -o large.pbp") == 0


@pytest.mark.usefixtures("too_large")
def test_hyperparameters_are_selected_with_weights_and_reported(
    capfd: Captured, limits: Limits
) -> None:
    limits.epochs_of_fast(4, 8)
    frame = homes()[:500].assign(n=lambda f: np.arange(len(f)) % 4)
    frame.to_csv("homes.csv", index=False)
    plain = FIT.replace("--hidden-layer-sizes 10 --n-epochs 3", "--budget fast --weight n")
    assert call(f"{plain} --report page.html --static -o large.pbp") == 0
    out, err = capfd.readouterr()
    [explained] = re.findall(r"^R² +(\S+)", out, re.M)
    assert float(explained) > 0.5  # rows and their predictions belong together
    assert "on disk" in err
    assert "selected: " in err
    assert err.index("wrote large.pbp") < err.index("out-of-fold rows:") < err.index("wrote page")
    assert "fitted on 375 rows and evaluated on 375 out-of-fold rows" in err
    model = probprop.load("large.pbp")
    assert isinstance(model.estimator, probprop.PBPRegressorCV)
    assert model.counting.weight == "n"
    assert model.estimator.n_samples_seen_ == 375  # rows of weight 0 are left out
    assert "predicted by networks that were not trained on it" in Path("page.html").read_text()


@pytest.mark.usefixtures("too_large")
@pytest.mark.parametrize("rows_left", [0, 400])
def test_files_that_change_after_the_fit_leave_the_model(
    capfd: Captured, limits: Limits, monkeypatch: pytest.MonkeyPatch, rows_left: int
) -> None:
    """They are read once more for the out-of-fold rows, when the model is on disk."""
    limits.epochs_of_fast(1, 2)
    written = output.save_fitted

    def saved(*arguments: object) -> None:
        written(*arguments)
        Path("homes.csv").unlink()
        if rows_left:
            homes()[:rows_left].to_csv("homes.csv", index=False)

    monkeypatch.setattr(output, "save_fitted", saved)
    assert call("fit homes.csv --target price --drop id --budget fast -o large.pbp") == 1
    err = capfd.readouterr().err
    assert "homes.csv" in err
    assert ("leave the rows as they are" in " ".join(err.split())) == bool(rows_left)
    assert probprop.load("large.pbp").estimator.n_samples_seen_ == 500


@pytest.mark.usefixtures("too_large")
def test_known_errors_and_several_targets_go_to_disk(capfd: Captured) -> None:
    frame = homes()[:500].assign(tax=lambda f: 0.01 * f["price"], e=1e4, t=100.0)
    frame.to_csv("homes.csv", index=False)
    plain = FIT.replace("--target price", "--target price,tax --error e,t")
    assert call(f"{plain} -o large.pbp") == 0
    model = probprop.load("large.pbp")
    assert model.targets == ["price", "tax"]
    assert "e" not in model.features
    assert call(f"{FIT} --report page.html --test-fraction 0 -o large.pbp") == 2
    assert "leave --test-fraction 0 out" in " ".join(capfd.readouterr().err.split())


@pytest.mark.usefixtures("too_large")
def test_a_checkpoint_is_kept_and_resumes(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(f"{FIT} -o whole.pbp") == 0
    interrupt(monkeypatch, 4)
    assert call(f"{FIT} -o resumed.pbp --checkpoint state") == 130
    assert Path("state").exists()
    assert not Path("resumed.pbp").exists()
    assert call(f"{FIT} -o resumed.pbp --checkpoint state") == 0
    assert np.array_equal(weights("whole.pbp"), weights("resumed.pbp"))
    capfd.readouterr()
    assert call(f"{FIT} --evidence-cap 3 -o resumed.pbp --checkpoint state") == 1
    assert "has other parameters (evidence_cap was None and is 3)" in capfd.readouterr().err


def test_small_tables_stay_in_memory_whatever_the_limit(capfd: Captured) -> None:
    assert call(f"{FIT} -o plain.pbp") == 0
    assert call(f"{FIT} --memory-limit 700MB -o limited.pbp") == 0
    assert "block by block" not in capfd.readouterr().err
    assert Path("plain.pbp").read_bytes() == Path("limited.pbp").read_bytes()


@pytest.mark.parametrize("limit", ["little", "10MB"])
def test_a_limit_that_is_none_is_a_usage_error(limit: str, capfd: Captured) -> None:
    assert call(f"{FIT} --memory-limit {limit} -o homes.pbp") == 2
    assert "the memory limit must be" in capfd.readouterr().err


# ---- Several files


def test_several_files_are_one_table(capfd: Captured) -> None:
    frame = homes()
    frame[:300].to_csv("part-1.csv", index=False)
    frame[300:500].to_csv("part-2.csv", index=False)
    frame[550:570].to_csv("sold-1.csv", index=False)
    frame[570:].to_csv("sold-2.csv", index=False)
    assert call(f"{FIT} -q -o one.pbp") == 0
    for given in ("part-*.csv", "part-1.csv part-2.csv"):
        assert call(f"{FIT.replace('homes.csv', given)} -q -o many.pbp") == 0
        assert Path("one.pbp").read_bytes() == Path("many.pbp").read_bytes()
    capfd.readouterr()  # the scores of the fits
    assert call("evaluate one.pbp sold.csv --json") == 0
    expected = json.loads(capfd.readouterr().out)
    assert call("evaluate one.pbp sold-*.csv --json") == 0
    assert json.loads(capfd.readouterr().out)["rows"] == expected["rows"] == 50
    assert call("predict one.pbp sold.csv -o sold-one.csv") == 0
    assert call("predict one.pbp sold-1.csv sold-2.csv -o sold-many.csv") == 0
    assert Path("sold-one.csv").read_text() == Path("sold-many.csv").read_text()
    assert call("update one.pbp sold.csv") == 0
    assert call("update many.pbp sold-1.csv sold-2.csv") == 0
    assert np.array_equal(weights("one.pbp"), weights("many.pbp"))


def test_a_file_without_a_column_is_named(capfd: Captured) -> None:
    homes()[:20].drop(columns="area").to_csv("bad.csv", index=False)
    assert call(f"{FIT.replace('homes.csv', 'homes.csv bad.csv')} -o homes.pbp") == 1
    assert "bad.csv has no column 'area'" in capfd.readouterr().err
    assert call("fit nothing-*.csv --target price -o homes.pbp") == 1
    assert "no file matches nothing-*.csv" in capfd.readouterr().err
    assert call("fit - homes.csv --target price -o homes.pbp") == 2
    assert "- must be alone" in capfd.readouterr().err


# ---- Streams


def test_evaluate_in_chunks_says_what_it_says_of_all_rows(
    capfd: Captured, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(f"{FIT} --quiet -o homes.pbp") == 0
    capfd.readouterr()

    def evaluated() -> dict[str, float]:
        assert call("evaluate homes.pbp homes.csv --json") == 0
        found: dict[str, float] = json.loads(capfd.readouterr().out)
        return found

    whole = evaluated()
    limits.chunks_of(60)
    parts = evaluated()
    assert parts.pop("verdict") == whole.pop("verdict")
    assert parts.pop("baseline") == whole.pop("baseline")
    assert parts.pop("left_out") == whole.pop("left_out") == {}
    assert parts == pytest.approx(whole, rel=1e-12)
    limits.sampled_for_a_report(100)
    assert evaluated() == evaluated()
    assert call("evaluate homes.pbp homes.csv --report page.html") == 0
    assert "of 100 samples (empirical coverage" in Path("page.html").read_text()


def test_a_sample_is_drawn_evenly() -> None:
    frames = [pd.DataFrame({"i": np.arange(k, k + 50)}) for k in range(0, 10_000, 50)]
    sample: list[pd.DataFrame] = []
    assert sum(map(len, judging.sampled(frames, sample, 200))) == 10_000
    [found] = sample
    rows = found["i"].to_numpy()
    assert len(rows) == 200
    assert (np.diff(rows) > 0).all()
    assert abs(rows.mean() - 5000.0) < 4.0 * 2887.0 / np.sqrt(200.0)


def test_classes_are_evaluated_in_chunks(capfd: Captured, limits: Limits) -> None:
    frame = homes()
    frame["price"] = np.where(frame["price"] > 3e5, "dear", "cheap")
    frame.to_csv("homes.csv", index=False)
    assert call("fit homes.csv --target price --drop id --n-epochs 3 -q -o homes.pbp") == 0
    capfd.readouterr()
    assert call("evaluate homes.pbp homes.csv --json") == 0
    whole = json.loads(capfd.readouterr().out)
    limits.chunks_of(70)
    assert call("evaluate homes.pbp homes.csv --json") == 0
    parts = json.loads(capfd.readouterr().out)
    for name in ("accuracy", "log_loss", "brier", "calibration_error"):
        assert parts[name] == pytest.approx(whole[name], rel=1e-12)


@pytest.mark.usefixtures("too_large")
def test_update_learns_a_large_table_block_by_block(capfd: Captured, limits: Limits) -> None:
    assert call(f"{FIT} -o homes.pbp --test-fraction 0") == 0
    before = probprop.load("homes.pbp")
    sold = homes()[550:]
    limits.tables_above_memory()
    limits.chunks_of(20)
    assert call("update homes.pbp sold.csv") == 0
    assert "read block by block" in capfd.readouterr().err
    expected = before
    for start in range(0, 50, 20):
        expected = expected.update(sold[start : start + 20])
    assert np.array_equal(weights("homes.pbp"), flat(expected.estimator.posterior_.m_w))


# ---- Memory, measured


# Not ru_maxrss: a child begins with the maximum of its parent, here the tests'.
PEAK = """
import re, sys
from pathlib import Path
from probprop.cli.application import run
code = run(sys.argv[1:])
print(code, re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_the_limit_holds_for_a_table_several_times_as_large(tmp_path: Path) -> None:
    n, width, n_files = 500_000, 40, 2  # each file is one row group
    X = RandomState(0).standard_normal((n, width))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(width)])
    frame.assign(y=X[:, 0] - X[:, 1]).to_parquet("0.parquet", index=False)
    for i in range(1, n_files):
        shutil.copy("0.parquet", f"{i}.parquet")
    in_memory = 5 * 8 * n_files * n * width  # what a fit in memory takes, and more
    command = (
        f"fit {tmp_path}/*.parquet --target y --hidden-layer-sizes 5 --n-epochs 1 -q -o large.pbp"
    )
    command += " --memory-limit 700MB"
    made = [sys.executable, "-c", PEAK, *command.split()]
    done = subprocess.run(made, check=True, stdout=subprocess.PIPE, text=True)
    code, peak = map(int, done.stdout.split()[-2:])
    assert code == 0
    assert in_memory > 2 * 700e6
    assert peak * 1024 < 1.15 * 700e6

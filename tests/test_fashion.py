"""`benchmarks.fashion` on small made pictures: the IDX files, the other kinds, the figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import fashion, fashion_data
from benchmarks.fashion_data import Bytes


def write_idx(path: Path, array: Bytes) -> None:
    """Write an array as the format is defined."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten blurred patterns, 300 pictures to fit and 100 to test; half of the files gzipped."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(256, size=(10, 28, 28))
    for part, n, end in (("train", 300, ".gz"), ("t10k", 100, "")):
        y = np.arange(n) % 10
        X = np.clip(patterns[y] + 20.0 * rng.standard_normal((n, 28, 28)), 0, 255)
        write_idx(tmp_path / f"{part}-images-idx3-ubyte{end}", X.astype(np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte{end}", y.astype(np.uint8))
    return tmp_path


def test_idx_files_are_read_gzipped_or_not(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    for name in ("plain", "packed.gz"):
        write_idx(tmp_path / name, array)
        np.testing.assert_array_equal(fashion_data.read_idx(tmp_path / name), array)


def test_what_is_no_idx_file_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "text").write_bytes(b"not an IDX file")
    with pytest.raises(ValueError, match="not an IDX file of unsigned bytes"):
        fashion_data.read_idx(tmp_path / "text")
    (tmp_path / "short").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 5, 1, 2]))
    with pytest.raises(ValueError, match=r"has 2 entries, but its header says \[5\]"):
        fashion_data.read_idx(tmp_path / "short")
    write_idx(folder / "t10k-labels-idx1-ubyte", np.zeros(7, np.uint8))
    with pytest.raises(ValueError, match=r"images of shape \(100, 28, 28\) and 7 labels"):
        fashion_data.load(folder, "t10k")


def test_the_folder_is_given_or_named_or_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBPROP_FASHION", str(tmp_path))
    assert fashion_data.folder_of(None) == tmp_path
    assert fashion_data.folder_of("elsewhere") == Path("elsewhere")
    monkeypatch.delenv("PROBPROP_FASHION")
    assert fashion_data.folder_of(None) == Path("/usr/share/datasets/fashion-mnist")
    with pytest.raises(FileNotFoundError, match="Debian package dataset-fashion-mnist"):
        fashion_data.load(tmp_path, "train")


def test_digits_drawn_larger_are_the_same_digits() -> None:
    from sklearn.datasets import load_digits

    large = fashion_data.handwriting().reshape(-1, 28, 28)
    small = load_digits().images / 16.0
    assert large.shape == (1797, 28, 28)
    np.testing.assert_array_equal(large[:, 0, 0], np.rint(255.0 * small[:, 0, 0]))
    np.testing.assert_array_equal(large[:, -1, -1], np.rint(255.0 * small[:, -1, -1]))
    light = np.corrcoef(large.mean(axis=(1, 2)), small.mean(axis=(1, 2)))[0, 1]
    assert light > 0.95


def test_discrimination_is_the_share_of_pairs_in_order() -> None:
    known, other = np.array([0.1, 0.5]), np.array([0.3, 0.6])
    assert fashion.told_apart(known, other) == 0.75


def test_the_figures_are_written(folder: Path, tmp_path: Path) -> None:
    scales = {
        "standardized": fashion.Scale(True, (2, 4)),
        "0 to 1": fashion.Scale(False, (2,)),
        "some held": fashion.Scale(True, (2,), held_below=0.3),
        "all held": fashion.Scale(True, (2,), held_below=9.0),
    }
    fashion.main(["--folder", str(folder), "--results", str(tmp_path)], scales, 20)
    written = json.loads((tmp_path / "fashion.json").read_text())
    assert [case["n_epochs"] for case in written["cases"]] == [2, 4, 2, 2, 2]
    last = written["cases"][1]
    assert last["accuracy"] > 0.95
    assert last["entropy"]["noise"] > 3.0 * last["entropy"]["clothes"]
    assert all(0.0 <= last["entropy_model"][k] <= last["entropy"][k] for k in last["entropy"])
    *_, some, all_held = written["cases"]
    deviations = np.std(fashion_data.load(folder, "train").X / 255.0, axis=0)
    assert some["n_held"] == np.sum(deviations < 0.3) > 0
    assert all_held["n_held"] == 784
    assert all_held["accuracy"] == pytest.approx(0.1)  # every picture looks the same
    assert all_held["entropy"]["noise"] == pytest.approx(all_held["entropy"]["clothes"])
    page = (tmp_path / "fashion.md").read_text()
    assert "784-100-10 on 300 pictures" in page
    assert "Pixels held at their means: " in page

"""Model files with a network of the noise: what is read back, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from model_files import X, fitted, read_model, refused, unzip, write_model
from probprop.files import load

NOISE = "posterior_/noise_network"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fitted(noise="input", noise_layer_sizes=(3, 2), n_epochs=4, random_state=0).save(tmp_path / "m")
    return tmp_path / "m"


def test_the_weights_come_back(path: Path) -> None:
    network = load(path).posterior_.noise_network
    again = fitted(noise="input", noise_layer_sizes=(3, 2), n_epochs=4, random_state=0)
    assert network.layer_sizes == (3, 3, 2, 1)
    for name in ("m_w", "v_w", "v_hat_nat"):
        known = getattr(again.posterior_.noise_network, name)
        for one, other in zip(getattr(network, name), known, strict=True):
            assert_array_equal(one, other)
    assert_array_equal(
        load(path).predict_distribution(X).aleatoric_std,
        again.predict_distribution(X).aleatoric_std,
    )


def test_constant_noise_needs_no_room(tmp_path: Path) -> None:
    fitted(n_epochs=2).save(tmp_path / "m")
    assert not [name for name in unzip(tmp_path / "m") if "noise_network" in name]


@pytest.mark.parametrize("sizes", [[], [3], [4, 3, 2, 1], [3, 3, 2, 2], [3, 1], [3, 3, 3, 1]])
def test_layers_that_do_not_fit(path: Path, sizes: list[int]) -> None:
    """A noise network of other sizes, or with more layers than arrays, is not of this model."""
    tree, arrays = read_model(path)
    node = tree["posterior_"]["noise_network"]
    arrays = {k: a for k, a in arrays.items() if not k.startswith(f"{NOISE}/m_w")}
    shapes = [(n_out, n_in + 1) for n_in, n_out in pairwise(sizes)]
    arrays |= {f"{NOISE}/m_w/{i}": np.zeros(shape) for i, shape in enumerate(shapes)}
    node["m_w"] = [f"{NOISE}/m_w/{i}" for i in range(len(shapes))]
    write_model(path, tree, arrays)
    refused(path, "fit together")
    arrays = {k: a for k, a in arrays.items() if not k.startswith(f"{NOISE}/v_w")}
    arrays |= {f"{NOISE}/v_w/{i}": np.ones(shape) for i, shape in enumerate(shapes)}
    node["v_w"] = [f"{NOISE}/v_w/{i}" for i in range(len(shapes))]
    write_model(path, tree, arrays)
    if sizes in ([3, 1], [3, 3, 3, 1]):
        load(path).predict(X)  # another network of the noise, but one
    else:
        refused(path, "fit")


def test_layers_that_claim_much_are_refused_before_they_are_made(path: Path) -> None:
    tree, arrays = read_model(path)
    huge = {f"{NOISE}/{k}/{i}": np.ones((10**6, 1)) for k in ("m_w", "v_w") for i in range(3)}
    write_model(path, tree, arrays | huge)
    refused(path, "the layers of m_w do not fit together")


@pytest.mark.parametrize(("name", "value"), [("v_w/0", 0.0), ("v_w/1", np.nan), ("m_w/2", np.inf)])
def test_values_that_no_fitted_model_has(path: Path, name: str, value: float) -> None:
    header, arrays = read_model(path)
    arrays = {k: a.copy() for k, a in arrays.items()}
    arrays[f"{NOISE}/{name}"].flat[0] = value
    write_model(path, header, arrays)
    refused(path, "has values that are out of range")


def test_an_array_is_missing(path: Path) -> None:
    header, arrays = read_model(path)
    del arrays[f"{NOISE}/m_w/0"]
    write_model(path, header, arrays)
    refused(path, f"the array {NOISE}/m_w/0 is missing")

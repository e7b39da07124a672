"""Model files with a network of the noise: what is read back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from model_files import X, fitted, header_of, refused, unzip
from probprop.files import load
from probprop.files.format import read_model, write_model


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
    assert not [name for name in unzip(tmp_path / "m") if name.startswith("noise_")]


@pytest.mark.parametrize("sizes", [[], [3], [4, 3, 2, 1], [3, 3, 2, 2], [3, 1], [3, 3, 3, 1]])
def test_layers_that_do_not_fit(path: Path, sizes: list[int]) -> None:
    with header_of(path) as header:
        header["noise_layer_sizes_"] = sizes
    ends_fit = len(sizes) > 1 and (sizes[0], sizes[-1]) == (3, 1)
    refused(path, "arrays do not fit together" if ends_fit else "the layers of the network of the")


@pytest.mark.parametrize(
    ("name", "value"), [("noise_v_w_0", 0.0), ("noise_v_w_1", np.nan), ("noise_m_w_2", np.inf)]
)
def test_values_that_no_fitted_model_has(path: Path, name: str, value: float) -> None:
    header, arrays = read_model(path)
    arrays = {k: a.copy() for k, a in arrays.items()}
    arrays[name].flat[0] = value
    write_model(path, _own(header), arrays)
    refused(path, f"{name} has values that no fitted model has")


def test_an_array_is_missing(path: Path) -> None:
    header, arrays = read_model(path)
    del arrays["noise_m_w_0"]
    write_model(path, _own(header), arrays)
    refused(path, "do not fit together")


def _own(header: dict[str, Any]) -> dict[str, Any]:
    """The header without what `write_model` adds."""
    added = ("format", "format_version", "probprop_version", "arrays")
    return {k: value for k, value in header.items() if k not in added}

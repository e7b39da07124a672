"""Noise of a candidate: homoscedastic, heteroscedastic, or selected out of fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from cv_models import LABELS, X, Y, answers, assert_equal, small, small_classifier
from model_files import header_of
from probprop import Candidate, load
from probprop.plot.model import candidate_in_words
from probprop.report import calibration_in_words

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

RNG = np.random.RandomState(3)
EVEN = RNG.uniform(-1.0, 1.0, size=(60, 4))
EVEN_Y = EVEN[:, 0] + 0.5 * RNG.standard_normal(60)  # its noise is the same everywhere


def fit(noise: Any, rows: Any = X, y: Any = Y) -> Any:
    return small(candidates=[Candidate(4, (4,), noise=noise)]).fit(rows, y)


def test_auto_is_one_of_the_two() -> None:
    for data in ((X, Y), (EVEN, EVEN_Y)):
        auto, constant, network = (fit(noise, *data) for noise in ("auto", "constant", "input"))
        assert_array_equal(constant.estimators_[0].posterior_.m_w[0], network_of(network))
        kept, left = (network, constant) if data[0] is X else (constant, network)
        p, expected, other = (model.predict_distribution(data[0]) for model in (auto, kept, left))
        assert_array_equal(p.std, expected.std)
        assert np.abs(p.std - other.std).max() > 0.0
        # Its gain is estimated whether or not it is requested, but not where it is excluded.
        assert auto.calibration_.gain == network.calibration_.gain
        assert (auto.calibration_.gain > 0.0) == (data[0] is X)
        assert np.isnan(constant.calibration_.gain)


def network_of(model: Any) -> Any:
    return model.estimators_[0].posterior_.m_w[0]


@pytest.mark.parametrize("n", [2, 3, 15, 150])
def test_it_is_what_was_requested_with_any_number_of_rows(n: int) -> None:
    assert fit("constant", X[:n], Y[:n]).calibration_.noise is None
    model = fit("input", X[:n], Y[:n])
    p = model.predict_distribution(X)
    assert model.calibration_.noise is not None
    assert np.isfinite(p.logpdf(Y)).all()
    model.partial_fit(X[:5], Y[:5])
    assert model.calibration_.noise is not None


def test_words() -> None:
    assert candidate_in_words(Candidate(4, noise="input")) == "4 bins, 50, noise network, no cap"
    constant, network = fit("constant"), fit("input", EVEN, EVEN_Y)
    assert "; constant noise variance; learned shape" in calibration_in_words(constant)
    gain = f"{network.calibration_.gain:+.3f}".replace("-", "−")
    assert f"heteroscedastic noise ({gain} ±" in calibration_in_words(network)


# ---- What is refused


def test_refusals() -> None:
    with pytest.raises(ValueError, match="noise of a candidate must be one of"):
        Candidate(noise="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"noise of a candidate is for .* regression. Got 'input'"):
        small_classifier(candidates=[Candidate(noise="input")]).fit(X, LABELS)
    with pytest.raises(ValueError, match="candidates must have the same noise"):
        small(candidates=[Candidate(noise="input"), {"noise": "constant"}]).fit(X, Y)


# ---- Files


@pytest.mark.parametrize("noise", ["constant", "input"])
def test_files(tmp_path: Path, noise: str) -> None:
    model = fit(noise)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_equal(model, loaded)
    assert loaded.best_params_["noise"] == noise
    assert loaded.candidates[0].noise == noise
    assert_array_equal(answers(model), answers(loaded))


def test_a_file_without_this_parameter_has_its_default(tmp_path: Path) -> None:
    model = fit("auto")
    model.save(tmp_path / "m")
    with header_of(tmp_path / "m") as header:
        candidates = [
            *(each["candidate"] for each in header["groups_"]),
            *(each["candidate"] for each in header["trials_"]),
            *(each["candidate"] for each in header["parameters"]["candidates"]),
        ]
        assert {candidate.pop("noise") for candidate in candidates} == {"auto"}
    assert_equal(model, load(tmp_path / "m"))

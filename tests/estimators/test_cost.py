"""The processor time of a fit with many classes, said before the fit starts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from probprop import PBPClassifier, PBPClassifierCV, PBPEnsemble
from probprop.estimators import cost
from probprop.estimators.cost import cost_in_words

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
MODELS = {
    "about": PBPClassifier((3,), n_epochs=2, random_state=0),
    "up to": PBPClassifierCV(
        2, candidates=[{"hidden": 3, "evidence_cap": 10.0}], budget="fast", random_state=0
    ),
}


def labelled(n_classes: int) -> tuple[Any, Any]:
    y = np.arange(80) % n_classes
    return np.column_stack([np.cos(y), np.sin(y)]), y


@pytest.mark.parametrize("word", MODELS)
def test_it_is_the_first_line_of_a_verbose_fit(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost, "WORTH_TELLING", 0.0)
    model = MODELS[word].set_params(verbose=1)
    model.fit(*labelled(40))
    first, *bar = capsys.readouterr().err.splitlines()
    sentence = rf"40 classes and 80 samples: the fit takes {word} \d+ s of processor time"
    assert re.fullmatch(sentence, first)
    assert "100 %" in bar[-1] or "epoch 2/2" in bar[-1]
    model.fit(*labelled(3))
    assert "samples" not in capsys.readouterr().err
    model.set_params(verbose=0).fit(*labelled(40))
    assert capsys.readouterr().err == ""


def test_a_short_fit_is_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_seconds_of_evidence", lambda n_classes: 1e-7 * n_classes)
    assert cost_in_words(PBPClassifier(), 100, 10, 100) == ""
    assert cost_in_words(PBPClassifier(), 5_000, 10, 32) == ""


def test_what_it_grows_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_seconds_of_evidence", lambda n_classes: 1e-6 * n_classes)

    def seconds(model: Any, n_samples: int = 5_000, n_classes: int = 1_000) -> float:
        number, unit = re.search(  # type: ignore[union-attr]
            r"([\d.]+) (s|min|h) of", cost_in_words(model, n_samples, 10, n_classes)
        ).groups()
        return float(number) * {"s": 1.0, "min": 60.0, "h": 3_600.0}[unit]

    single = seconds(PBPClassifier())
    assert seconds(PBPClassifier(n_epochs=80)) == pytest.approx(2.0 * single, rel=0.1)
    assert seconds(PBPClassifier(), 50_000) == pytest.approx(10.0 * single, rel=0.1)
    assert seconds(PBPEnsemble(PBPClassifier(), 5)) == pytest.approx(5.0 * single, rel=0.1)
    assert seconds(PBPClassifierCV("not asked", budget=75.0), n_classes=100) == 75.0
    fast, best = (seconds(PBPClassifierCV(budget=budget)) for budget in ("fast", "best"))
    assert fast < seconds(PBPClassifierCV()) < best
    assert seconds(PBPClassifierCV(10)) > seconds(PBPClassifierCV(3))

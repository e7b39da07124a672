"""docs/guide/integrations.md runs where the other packages are, and any model fits into skops."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probprop import PBPClassifierCV, PBPRegressor, PBPRegressorCV

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "integrations.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.filterwarnings("default")  # also warnings of other packages
@pytest.mark.parametrize("package", ["skops", "mlflow", "shap"])
def test_a_block_of_the_page_runs(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    needs_skops = ("skops",) if package == "mlflow" else ()
    left: dict[str, Any] = {}
    for block in BLOCKS:
        imported = re.findall(r"^import (\w+)", block, re.MULTILINE)
        if not imported or {*imported} <= {package, *needs_skops}:
            exec(compile(block, str(PAGE), "exec"), left)
    model, X = left["model"], left["X"]
    if package == "shap":
        shown = pytest.importorskip("shap").Explainer(model.predict, X[:100])(X[:5])
        assert_allclose(shown.base_values + shown.values.sum(axis=1), model.predict(X[:5]))
    elif package == "mlflow":
        assert_array_equal(left["mean"], model.predict(X[:2]))
        assert_array_equal(left["same"].predict(X), model.predict(X))
    else:
        assert_array_equal(left["loaded"].predict(X), model.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), PBPRegressor(n_epochs=2, random_state=0)),
        PBPRegressorCV(budget="fast", random_state=0),
        PBPClassifierCV(budget="fast", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_skops_needs_no_types_but_probprops(model: Any, tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io", reason="needs the extra 'test'")
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    model.fit(X, y > 0.0 if is_classifier(model) else y)
    skops.dump(model, tmp_path / "model.skops")
    untrusted = skops.get_untrusted_types(file=tmp_path / "model.skops")
    assert untrusted
    assert all(name.startswith("probprop.") for name in untrusted)
    loaded = skops.load(tmp_path / "model.skops", trusted=untrusted)
    assert_array_equal(loaded.predict(X), model.predict(X))

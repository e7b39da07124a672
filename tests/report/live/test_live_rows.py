"""What a page contains of rows and columns, and how its parts are put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from live_models import CITIES, FEATURES, MODELS, fitted, new_rows, rows_of, table
from probprop import PBPRegressorCV, web
from probprop.report.live import (
    N_BINS,
    _rows,
    columns_of,
    exported,
    live_page,
    n_numbers,
    target_ranges,
    typical_row,
)
from probprop.table import TableModel, fit_table_model
from probprop.table.encoding import UnknownCategoryWarning


@pytest.fixture(scope="module")
def model() -> TableModel:
    return fitted("one network")


def by_name(columns: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in columns}


def test_columns_say_where_the_rows_lie(model: TableModel) -> None:
    frame = rows_of(model)
    columns = by_name(columns_of(model, frame))
    assert list(columns) == FEATURES
    area = columns["area <m²>"]
    assert (area["low"], area["high"]) == (frame["area <m²>"].min(), frame["area <m²>"].max())
    assert area["typical"] in set(frame["area <m²>"])
    assert len(area["counts"]) == N_BINS
    assert area["counts"].sum() == len(frame)
    assert not area["whole"]
    tails = frame["area <m²>"].quantile([0.1, 0.9], interpolation="higher")
    assert area["tails"] == tails.tolist()
    assert columns["sold"]["tails"] == sorted(columns["sold"]["tails"])
    assert columns["rooms"]["whole"]
    assert columns["rooms"]["counts"].sum() == frame["rooms"].notna().sum()
    city = columns["city"]
    counts = dict(zip(city["categories"], city["counts"].tolist(), strict=True))
    assert counts == frame["city"].astype(object).fillna("(missing)").value_counts().to_dict()
    assert city["typical"] == CITIES[0]
    assert columns["garden"]["typical"] is False
    sold = columns["sold"]
    assert sold["parts"] == list(model.encoder["sold"].parts)
    assert sold["low"] < sold["typical"] < sold["high"]
    assert sold["low"][:16] == frame["sold"].dropna().min()


def test_without_rows_the_model_says_it(model: TableModel) -> None:
    columns = by_name(columns_of(model, None))
    assert not any("counts" in column for column in columns.values())
    frame, area = rows_of(model), columns["area <m²>"]
    assert area["typical"] == pytest.approx(frame["area <m²>"].mean())
    assert area["low"] < area["typical"] < area["high"]
    assert columns["city"]["typical"] == CITIES[0]
    when = pd.Timestamp(columns["sold"]["typical"])
    assert pd.Timestamp("2019-03-01") < when < pd.Timestamp("2021-01-01")
    assert columns["area <m²>"]["low"] <= columns["area <m²>"]["tails"][0]
    axis = target_ranges(model, None)[0]
    assert axis["low"] < frame["price"].mean() < axis["high"]


def test_a_cross_validated_model_has_its_training_range() -> None:
    model = fitted("cv, ramps")
    [area, *_] = columns_of(model, None)
    frame = rows_of(model)
    assert (area["low"], area["high"]) == (frame["area <m²>"].min(), frame["area <m²>"].max())
    axis = target_ranges(fitted("cv, logarithm"), None)[0]
    assert 0.0 <= axis["low"] < frame["price"].median() < axis["high"]


def test_rows_come_with_their_cells(model: TableModel) -> None:
    frame = new_rows(model)
    rows = _rows(model, frame, None)
    np.testing.assert_array_equal(rows["observed"][:, 0], frame["price"])
    np.testing.assert_allclose(rows["predicted"][:, 0], model.predict(frame))
    for name, cells in zip(FEATURES, rows["cells"], strict=True):
        none = "(missing)" if name == "city" else None
        expected = [none if pd.isna(cell) else cell for cell in frame[name]]
        if name == "sold":  # the same moments, with or without seconds
            cells, expected = ([c and pd.Timestamp(c) for c in each] for each in (cells, expected))
        assert cells == expected
    assert rows["numbers"] == (frame.index + 1).tolist()


def test_the_typical_row_is_a_common_one_near_the_medians(model: TableModel) -> None:
    frame = rows_of(model)
    row = frame.iloc[typical_row(model.encoder, model.encode(frame))]
    assert not row.isna().any()
    assert row["city"] == CITIES[0]
    assert row["garden"] is False
    for name in ("area <m²>", "rooms"):
        assert 0.25 <= (frame[name].dropna() <= row[name]).mean() <= 0.85
    assert _rows(model, table()[300:], None)["typical"] < 100


def test_columns_without_a_spread_are_compared_further_out() -> None:
    frame = pd.DataFrame({"rare": [0.0] * 97 + [3.0] * 3, "y": np.arange(100.0)})
    model = fit_table_model(frame, "y", estimator=MODELS["one network"][1])
    assert columns_of(model, frame)[0]["tails"] == [0.0, 3.0]


def test_far_targets_do_not_squash_the_axis() -> None:
    model = fitted("one network")
    y = np.append(np.linspace(0.0, 10.0, 500), [1e4, 1e5])
    axis = target_ranges(model, y)[0]
    assert axis["low"] == 0.0
    assert 10.0 < axis["high"] < 20.0
    assert not axis["log"]
    axis = target_ranges(model, np.exp(np.linspace(0.0, 9.0, 500)))[0]
    assert axis["log"]


def test_important_columns_come_first(model: TableModel) -> None:
    live = live_page(model, train=rows_of(model), important=["sold", "city"])
    assert '"order":[4,2,0,1,3]' in live.data["what-if-model"]


def test_rows_are_shown_with_their_out_of_fold_predictions() -> None:
    frame = table()[:60]
    estimator = PBPRegressorCV(budget="fast", missing="marginalize", random_state=0)
    model = fit_table_model(frame, "price", features=FEATURES[:2], estimator=estimator)
    oof = model.estimator.oof_predictive_
    live = live_page(model, rows=frame, predictive=oof, train=frame)
    own = live_page(model, rows=frame, train=frame)
    assert live.data["what-if-model"] == own.data["what-if-model"]
    assert live.data["what-if-arrays"] != own.data["what-if-arrays"]


def test_an_unknown_category_is_marked(model: TableModel) -> None:
    frame = table()[:3].assign(city="Rome")
    with pytest.warns(UnknownCategoryWarning):
        model.predict(frame)
    assert _rows(model, frame, None)["cells"][2] == [None] * 3


@pytest.mark.parametrize("name", MODELS)
def test_every_network_is_in_the_tree(name: str) -> None:
    model = fitted(name)
    tree = exported(model)
    layers = [member["output_layer"] for member in tree["members"]]
    n = sum(2 * member["m_w"].size for member in tree["members"])
    assert n + sum(np.size(v) for layer in layers if layer for v in layer.values()) == n_numbers(
        model
    )
    assert [
        len(layer["intercept"]) if layer else member["sizes"][-1]
        for layer, member in zip(layers, tree["members"], strict=True)
    ] == [
        {None: len(model.targets), 2: 1, 3: 3}[
            None if model.classes is None else len(model.classes)
        ]
    ] * len(tree["members"])


def test_no_text_of_the_page_ends_its_element(model: TableModel) -> None:
    frame = table()[:50].assign(city="</script><!--")
    live = live_page(model, rows=frame, train=frame)
    assert all("<" not in text for text in live.data.values())
    assert "</script" not in live.script
    assert "<!--" not in live.script
    assert "</style" not in live.style


def test_modules_become_one_script(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "f/a.js": 'import { b,\n  c as d } from "./b.js";\nrun(b, d);\n',
        "f/b.js": "export const b = 1;\nexport function c() {}\n",
        "f/bad.js": 'import b from "./b.js";\n',
    }
    monkeypatch.setattr(web, "text_of", lambda name: texts[name])
    script = web.bundle("f", "a.js")
    assert script.index("const b = 1;") < script.index("run(b, d);")
    assert "return { b, c };" in script
    with pytest.raises(ValueError, match=r"bad\.js has a line that is not understood: import b"):
        web.bundle("f", "bad.js")

from __future__ import annotations

import base64
import importlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor, __version__, metrics

pytest.importorskip("jinja2", reason="the report needs the extra cli")
pytest.importorskip("matplotlib", reason="the report needs the extra cli")

from matplotlib import pyplot
from matplotlib.figure import Figure

from probprop.judged import show
from probprop.report import (
    Section,
    figure,
    model_facts,
    render,
    write_report,
)
from probprop.report.document import axis_label
from report_sections import sections_of as made_of

HOSTILE = '<script>alert("&amp;")</script>'


class Parsed(HTMLParser):
    """The tags of a document, with attributes, its text, and whether tags are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def drawing(**style: Any) -> Any:
    ax = Figure().subplots()
    ax.plot([0, 1], [1, 0], **style)
    return ax


@pytest.fixture(scope="module")
def fitted() -> tuple[PBPRegressor, Any, Any]:
    X, y = load_diabetes(return_X_y=True)
    return PBPRegressor(random_state=0).fit(X[:350], y[:350]), X[350:], y[350:]


NAMES = load_diabetes().feature_names


# ---- The document


def test_user_strings_are_shown_not_obeyed() -> None:
    section = Section(HOSTILE, HOSTILE, ([HOSTILE], [[HOSTILE]]), [figure(drawing(), HOSTILE)])
    page = Parsed(render(HOSTILE, [section], footer=HOSTILE))
    assert page.every("script") == []
    assert page.text.count(HOSTILE) == 7  # title twice
    assert page.every("img")[0]["alt"] == HOSTILE


def test_nothing_is_asked_of_the_network() -> None:
    html = render("T", [Section("S", "text", figures=[figure(drawing(), "a")])], footer="f")
    page = Parsed(html)
    addresses = [a[k] for _, a in page.tags for k in ("src", "href", "srcset") if k in a]
    assert addresses
    assert all(address is not None and address.startswith(("data:", "#")) for address in addresses)
    assert re.findall(r"https?:|@import|url\((?!#)", html) == []
    policy = [m["content"] for m in page.every("meta") if "http-equiv" in m]
    assert policy[0] is not None
    assert policy[0].startswith("default-src 'none'; img-src data:;")


def test_paragraphs_tables_and_captions() -> None:
    table = (["name", "value"], [["a", "1.5"], ["b", "−2 %"]])
    page = Parsed(
        render(
            "T",
            [
                Section("Table", "One.\n\nTwo.", table),
                Section("Bare", table=([], [["x", "y"]])),
                Section("Figure", "Caption.", figures=[figure(drawing(), "a")]),
            ],
            footer="the end",
        )
    )
    assert len(page.every("p")) == 4  # two, the caption, the footer
    assert len(page.every("thead")) == 1
    assert [c.get("class") for c in page.every("td")] == ["number", "number", "short"]
    assert len(page.every("figcaption")) == 1
    assert page.text.endswith("the end")


@pytest.mark.parametrize(
    ("n_singles", "expected"),
    [(1, ["wide"]), (2, ["half"] * 2), (3, ["half", "half", "wide"])],
)
def test_single_pictures_are_in_pairs(n_singles: int, expected: list[str]) -> None:
    picture = figure(drawing(), "a")
    plain = Section("plain", "text")
    sections = [plain, *[Section("one", figures=[picture])] * n_singles, plain]
    page = Parsed(render("T", sections, footer=""))
    assert [s["class"] for s in page.every("section")] == ["full", *expected, "full"]


def test_columns_of_numbers_are_known() -> None:
    rows = [
        ["yacht", "1,234", "3.01 ± 0.18", "95.1 %", "+0.4", "", "4"],
        ["energy", "7e-05", "nan", "0.2 s", "", "", "4 or 5"],
    ]
    header = ["set", "n", "RMSE", "in 95 %", "Δ", "verdict", "layers"]
    numeric = [c == "number" for c in Section("Scores", "", (header, rows)).classes]
    assert numeric == [False, True, True, True, True, False, False]


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        render("T", [Section("S", table=([], [["a", "b"], ["a"]]))], footer="")


# ---- Pictures


def decoded(html: str) -> list[bytes]:
    uris = [image["src"] or "" for image in Parsed(html).every("img")]
    return [base64.b64decode(uri.split(",", 1)[1]) for uri in uris]


def test_pictures_keep_their_bytes_and_their_words() -> None:
    svg, png = figure(drawing(), "A < B", "It rises."), (b"\x89PNG\r\n\x1a\n...", 'p"ng')
    page = Parsed(html := render("T", [Section("S", figures=[svg, png])], footer=""))
    assert decoded(html) == [svg[0], png[0]]
    first, second = page.every("img")
    assert (first["src"] or "").startswith("data:image/svg+xml;base64,")
    assert (second["src"] or "").startswith("data:image/png;base64,")
    assert [image["alt"] for image in (first, second)] == ["A < B. It rises.", 'p"ng']


def test_crowded_layers_become_pixels() -> None:
    ax = Figure().subplots()
    rng = np.random.RandomState(0)
    x, y = rng.standard_normal((2, 10_000))
    dots = ax.scatter(x, y)
    bars = ax.errorbar(x, y, yerr=1.0, fmt="none")
    few = ax.plot([0, 1], [0, 1])[0]
    image, _ = figure(ax.figure, "cloud")
    assert len(image) < 400_000
    assert image.count(b"<image ") >= 1
    assert dots.get_rasterized()
    assert bars.lines[2][0].get_rasterized()
    assert not few.get_rasterized()
    ElementTree.fromstring(image)


def test_odd_names_on_axes_give_valid_svg() -> None:
    ax = drawing()
    ax.set_xlabel("<b> & 面積 \x01\x0b")
    image, _ = figure(ax, "odd")  # also: no warning of a glyph that Matplotlib's font lacks
    texts = ["".join(e.itertext()) for e in ElementTree.fromstring(image).iter()]
    assert "<b> & 面積 " in texts


def test_a_picture_is_the_same_every_time() -> None:
    assert figure(drawing(), "a") == figure(drawing(), "a")


# ---- The file


def test_write_report_signs_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")
    write_report(path, "Größe in m²", [Section("S")])
    html = path.read_bytes().decode("utf-8")
    assert "Größe in m²" in html
    assert re.search(
        rf"probprop {re.escape(__version__)} on \d{{4}}-\d\d-\d\d at \d\d:\d\d UTC", html
    )
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_a_failed_report_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_report(path, "T", [])
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"r\.html cannot be written: there is no folder"):
        write_report(tmp_path / "absent" / "r.html", "T", [])


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "probprop.report.document")
    with pytest.raises(ImportError, match=rf"{missing}, .* pip install 'probprop\[cli\]'$"):
        importlib.import_module("probprop.report.document")


# ---- Regression


def sections_of(fitted: tuple[PBPRegressor, Any, Any], **changes: Any) -> list[Section]:
    model, X, y = fitted
    options = {"feature_names": NAMES, "target": "progression", "held_out": True} | changes
    return made_of(model, X, y, **options)


@pytest.fixture(scope="module")
def sections(fitted: tuple[PBPRegressor, Any, Any]) -> list[Section]:
    return sections_of(fitted)


def test_headline_has_the_numbers(
    fitted: tuple[PBPRegressor, Any, Any], sections: list[Section]
) -> None:
    model, X, y = fitted
    headline = sections[0]
    lower, upper = model.predict_distribution(X).interval(0.95)
    n_inside = int(((lower <= y) & (y <= upper)).sum())
    low, high = stats.binom.ppf([0.025, 0.975], len(y), 0.95)
    assert f"contain {n_inside} of {len(y)} test samples (empirical coverage " in headline.text
    assert f"{low:.0f} to {high:.0f}" in headline.text
    rmse = float(np.sqrt(np.mean((y - model.predict(X)) ** 2)))
    below = 100 * (1 - rmse / y.std())
    assert f"(RMSE) is {rmse:.2f}, in units of progression: {below:.0f} % below" in headline.text
    scores = metrics.summary(y, model.predict_distribution(X))
    assert headline.table is not None
    values = {name: value for name, value, *_ in headline.table[1]}
    assert values["CRPS"] == show("crps", scores["crps"])
    likelihood = show("log_likelihood", scores["log_likelihood"])
    assert values["Log-likelihood"] == likelihood.replace("-", "−")


@pytest.mark.parametrize(
    ("held_out", "said"),
    [
        (True, "was not trained on these samples"),
        (False, "was trained on these samples"),
        (None, "average."),
    ],
)
def test_headline_says_which_rows(
    fitted: tuple[PBPRegressor, Any, Any], held_out: bool | None, said: str
) -> None:
    model, X, y = fitted
    made = sections_of((model, X[:60], y[:60]), held_out=held_out)
    assert made[0].text.count(said) == 1


def test_the_baseline_matches_the_training_targets(
    fitted: tuple[PBPRegressor, Any, Any],
) -> None:
    model, X, y = fitted
    [first, *_] = sections_of((model, X[:60], y[:60]), baseline=[(100.0, 50.0)])
    assert "the mean and the standard deviation of the training targets" in first.text
    assert first.table is not None
    values = {name: value for name, _, value, *_ in first.table[1]}
    names = ["RMSE", "MAE", "R²", "Log-likelihood", "CRPS"]
    names += [f"Inside {level} % interval" for level in (50, 80, 90, 95)]
    assert list(values) == [*names, "Calibration error", "Mean predicted std"]
    assert values["RMSE"] == show("rmse", float(np.sqrt(np.mean((y[:60] - 100.0) ** 2))))
    expected = show("log_likelihood", stats.norm.logpdf(y[:60], 100.0, 50.0).mean())
    assert values["Log-likelihood"] == expected.replace("-", "−")


def test_every_score_is_next_to_the_baseline(sections: list[Section]) -> None:
    header, rows = sections[0].table or ([], [])
    assert header == ["Measure", "Value", "Baseline", "How to read it"]
    assert all(row[2] not in ("", "–", row[1]) for row in rows if "Inside" not in row[0])


def test_every_section_is_there(sections: list[Section]) -> None:
    n_figures = {s.title: len(s.figures) for s in sections}
    assert n_figures == {
        "How good the predictions are": 0,
        "Predicted against observed": 1,
        "Calibration": 1,
        "Residuals against error bars": 1,
        "Largest errors": 0,
        "Feature importance": 1,
        "Partial dependence": 10,
        "Training": 1,
        "The model": 0,
        "Columns": 0,
    }
    assert pyplot.get_fignums() == []


def test_facts(fitted: tuple[PBPRegressor, Any, Any]) -> None:
    model = fitted[0]
    facts = dict(model_facts(model, NAMES, "progression"))
    assert facts["Network"] == "10 features, 50 hidden units, 1 output; 601 weights in float64"
    assert facts["Training"] == "350 samples, 40 epochs"
    assert facts["Features"] == ", ".join(NAMES)
    assert facts["Version"] == f"probprop {__version__}"
    q = model.posterior_
    precision = stats.gamma(q.alpha_noise, scale=1.0 / q.beta_noise)
    low, high = np.sqrt(1.0 / precision.ppf([0.975, 0.025])) * model.standardizer_.y_scale
    std = np.sqrt(model.noise_variance_)
    assert facts["Noise"] == (
        f"standard deviation {std:.2f} (95 % interval {low:.2f} to {high:.2f}), "
        "in units of progression"
    )


def test_many_features_are_not_all_named() -> None:
    X = np.random.RandomState(0).standard_normal((60, 50))
    model = PBPRegressor((), n_epochs=1, random_state=0).fit(X, X[:, 0])
    facts = dict(model_facts(model, [f"f{i}" for i in range(50)], "y"))
    assert facts["Features"].endswith(", f39 and 10 more")
    assert facts["Network"].startswith("50 features, no hidden layer, 1 output")


def test_names_of_columns_cannot_break_the_report(
    fitted: tuple[PBPRegressor, Any, Any], tmp_path: Path
) -> None:
    names = [f"{HOSTILE} $\\frac{{$ {i}" for i in range(10)]
    sections = sections_of(fitted, feature_names=names, target="$y_{$ <i>")
    page = Parsed(render("T", sections, footer=""))
    assert page.every("script") == []
    assert page.every("i") == []
    assert names[2] in page.text
    for section in sections:
        for image, _ in section.figures:
            ElementTree.fromstring(image)


def test_named_columns_and_frames_are_taken_without_a_warning() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = PBPRegressor(n_epochs=2, random_state=0).fit(X, y)
    sections = made_of(model, X[:30], y[:30], feature_names=X.columns, target="y", held_out=False)
    assert len(sections) == 10


def test_a_single_row(fitted: tuple[PBPRegressor, Any, Any]) -> None:
    model, X, y = fitted
    sections = sections_of((model, X[:1], y[:1]))
    assert "of 1 test sample (" in sections[0].text
    assert "average" not in sections[0].text  # which would be right by definition


@pytest.mark.parametrize(
    ("name", "label"),
    [("a\n\tb", "a b"), ("$x$", r"\$x\$"), ("n" * 70, "n" * 59 + "…"), ("n" * 60, "n" * 60)],
)
def test_names_are_made_fit_for_axes(name: str, label: str) -> None:
    assert axis_label(name) == label


def test_many_rows_make_a_small_file(tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((12_000, 3))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(12_000)
    model = PBPRegressor(20, n_epochs=3, random_state=0).fit(X, y)
    sections = made_of(model, X, y, feature_names=["a", "b", "c"], target="y", held_out=False)
    path = tmp_path / "large.html"
    write_report(path, "Large", sections)
    assert path.stat().st_size < 500_000
    assert path.read_bytes().count(b"<image") == 0
    [panels] = [s for s in sections if s.title == "Partial dependence"]
    assert len(panels.figures) == 3

"""House style, as far as it can be counted: terms, phrases and spelling of pages and code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/guide").glob("*.md"))]
SOURCES = [
    path
    for path in sorted((ROOT / "src").rglob("*"))
    if path.suffix in {".py", ".js", ".css", ".jinja"}
]
TEXTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "lab/README.md")), *PAGES]
EVERYTHING = [*TEXTS, *SOURCES]
ROOMS = ("src", "tests", "lab", "benchmarks", "cpp", "tools", "examples")
CODE = {
    room: [
        path
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in {".py", ".js", ".css", ".jinja", ".hpp", ".cpp"}
        and path != Path(__file__)
        and "build" not in path.relative_to(ROOT).parts
    ]
    for room in ROOMS
}

TERMS = """aleatoric, ADF step, baseline, Box–Cox, conformal, data shards, early stopping,
effective sample size, empirical coverage, epistemic, evidence cap, heavy-tailed, heteroscedastic,
class labels, epoch, hyperparameters, log-normal scale mixture, missing values, model selection,
nats per sample, out-of-fold, outliers, piecewise-linear encoding, PIT recalibration, posterior
predictive distribution, relevance determination, shuffled partitions, stacking, successive halving,
synchronization rounds, synthetic data, tempering, temperature scaling, test set, validation set,
variance scaling factor"""
PHRASES = [  # each stood in the tree once; the guide to style has what to write instead
    "Of a regression: from so many rows on",
    "Of the rows, that the winner learns",
    "Of a spreadsheet the first sheet",
    "Of more than 1,000 rows a random 1,000",
    "its error bars are those of rows that were held out",
    "The noise that is learned, and that predictions have",
    "of that over all rows has the scale of all rows",
    "the noise is that of the nearest row inside",
    "up to some hundred rows",
    "is the mean of so many measurements",
    "is so many standard deviations above the mean",
    "From then on a candidate is dropped that",
    "how much of both the data need",
    "Left out, with a note: columns without any value",
    "so candidates that differ in nothing else are refused",
    "How the features are encoded for them; None: not at all",
    "They do not change the result.",
    "Rows given, each counted once",
    "Test rows, mean over splits of the literature",
    "texts that name the rows, and left out",
    "It watches: each row shows it the residual",
    "undo what the random ones taught",
    "gave back more of the evidence on a weight",
    "The ramps stand beside the column",
    "Go on with new rows; the first call is a `fit`",
    "Both columns hold numbers of 0 or more",
    "A `cv` that is no number is one partition",
    "Draw functions: a member by lot",
    "is none that a model has",
    "has a class that it cannot have",
    "exists and is no model file",
    "predicts a power of the targets, since all that it was fitted to",
    "Forms that differ, values that do not",
    "What came out",
    "A page that learns",
    "all budgets come out alike",
    "so that it may be made once for nothing",
    "honest models",
]
HOME_MADE = re.compile(  # words for which the field has a term
    r"\b(?:absorb(?:s|ed)?|anew|by lot|beside|contest|honest|made (?:rows|data)|in place of|"
    r"held[- ]out rows?|rows held out|some (?:seconds|hundred)|ramps beside|settings chosen)\b",
    re.IGNORECASE,
)
HOME_MADE_IN_CODE = re.compile(  # those that are no names in code
    r"\b(?:anew|beside (?:the|an?|its?|that|those|each|every|[A-Z`])|by lot|(?:gave|gives?) back|"
    r"go(?:es|ing)? on (?:from|to|with)|held[- ]out rows?|honest|in place of|knows? nothing|"
    r"made (?:data|rows|tables?)|piles?|rows (?:that (?:are|were) )?held out|settings chosen|"
    r"so many (?:rows|samples|seconds)|some (?:hundred|seconds|thousand)|taken? for (?:an?|the)|"
    r"what there is)\b",
)
TEST_NAME = re.compile(
    r"_(?:absorbed|anew|beside|gaps?|goes_on|going_on|held_out|honest|is_that_of|are_those_of|"
    r"judged|judges|made_(?:data|rows)|per_cent|so_many|told|wild)(?=_|$)"
)
BRITISH = re.compile(
    r"\b_?(?:(?:standard|marginal|normal|initial|regular|general|summar|minim|maxim|optim|factor|"
    r"raster)is(?:e|ed|es|er|ing|ation)|colours?|grey|neighbours?|behaviour|favour|labelled|"
    r"modelling|licence|centred?|judgement|per cent|afterwards|towards)\b",
    re.IGNORECASE,
)
MOST_THAT_OF = 40
MOST_THAT_OF_IN_CODE = 15  # in each room
MOST_WORDS = 30_000


def text_of(path: Path) -> str:
    """Return a file in one line, so that a phrase is found across line breaks and comments."""
    return re.sub(r"\s+(?:#|//|\*)?\s*", " ", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("term", [term.strip() for term in TERMS.replace("\n", " ").split(",")])
def test_the_terms_of_the_field_are_used(term: str) -> None:
    assert any(term.lower() in text_of(page).lower() for page in PAGES)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_phrases_that_were_replaced_stay_away(path: Path) -> None:
    text = text_of(path)
    assert [phrase for phrase in PHRASES if phrase in text] == []
    assert BRITISH.findall(text) == []


@pytest.mark.parametrize("room", ROOMS)
def test_code_has_the_words_of_the_field(room: str) -> None:
    for path in CODE[room]:
        text = text_of(path)
        found = [phrase for phrase in PHRASES if phrase in text]
        found += [*HOME_MADE_IN_CODE.findall(text), *BRITISH.findall(text)]
        names = re.findall(r"def (test_\w+)", text)
        assert (path, found + [name for name in names if TEST_NAME.search(name)]) == (path, [])


def that_of(paths: list[Path]) -> int:
    return sum(len(re.findall(r"(?i)\b(?:that|those) of\b", text_of(path))) for path in paths)


def test_nouns_are_repeated() -> None:
    assert that_of(EVERYTHING) <= MOST_THAT_OF


@pytest.mark.parametrize("room", ROOMS[1:])
def test_nouns_are_repeated_in_code(room: str) -> None:
    assert that_of(CODE[room]) <= MOST_THAT_OF_IN_CODE


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_terms_of_the_field_replace_home_made_words(path: Path) -> None:
    assert HOME_MADE.findall(text_of(path)) == []


def test_the_guide_is_short() -> None:
    """Words are counted as ``wc -w`` does."""
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES) <= MOST_WORDS


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120

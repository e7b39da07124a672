"""Columns, ramps and hats: ``python -m benchmarks.guide.encodings`` scores networks on each.

``docs/results/encodings.jsonl`` has a row per fit, ``encodings_sets.md`` the benchmark sets,
``encodings_evidence_cap.md`` what a bound on the evidence does, and ``encodings_diabetes.md`` a set
with few rows and much noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, SplineTransformer

from benchmarks.clock import timed
from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import best_bold, table
from benchmarks.paired import difference, mean
from probprop import PBPRegressor, PiecewiseLinearEncoder, metrics
from probprop._types import Array
from probprop_lab.experiments.harness.benchmark import Loader, Parts, load_split

SPLITS = {
    "yacht": 20,
    "energy": 20,
    "concrete": 20,
    "boston_housing": 20,
    "wine_red": 20,
    "power_plant": 5,
    "kin8nm": 5,
    "naval_propulsion": 5,
    "protein": 3,
}
ENCODINGS = ("columns", "ramps", "hats")
BOUNDED = ("boston_housing", "wine_red")  # where ramps make predictions overconfident
EVIDENCE_CAPS = (None, 10.0, 3.0, 1.0)
_N_BINS = 32
_N_FOLDS = 5
_DIABETES = "diabetes"
_SMALL = {"kin8nm": 3, "naval_propulsion": 4, "wine_red": 3}  # decimals of an RMSE


def encoder_of(encoding: str, n_bins: int, X: Array) -> Any:
    """Return a transformer of these rows, not fitted.

    Hats are B-splines of degree 1 at the knots of the ramps, in addition to the columns.
    """
    if encoding == "columns":
        return FunctionTransformer()
    ramps = PiecewiseLinearEncoder(n_bins)
    if encoding == "ramps":
        return ramps
    splines = [
        (SplineTransformer(degree=1, knots=knots[:, np.newaxis], extrapolation="constant"), [j])
        for j, knots in enumerate(ramps.fit(X).knots_)
        if len(knots)
    ]
    return make_column_transformer((FunctionTransformer(), list(range(X.shape[1]))), *splines)


def fold(split: int) -> Parts:
    """Return one of five folds of diabetes to test on, and the other rows to fit."""
    X, y = load_diabetes(return_X_y=True)
    train, test = list(KFold(_N_FOLDS).split(X))[split]
    return X[train], y[train], X[test], y[test]


def evaluate(
    dataset: str,
    split: int,
    encoding: str,
    n_bins: int,
    evidence_cap: float | None,
    load: Loader = load_split,
) -> Figures:
    """Fit an encoding and a network on a split; the seconds are processor time of both."""
    X_train, y_train, X_test, y_test = fold(split) if dataset == _DIABETES else load(dataset, split)
    encoder = encoder_of(encoding, n_bins, X_train)
    model = PBPRegressor(
        evidence_cap=evidence_cap, random_state=0 if dataset == _DIABETES else split
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        seconds, _ = timed(partial(make_pipeline(encoder, model).fit, X_train, y_train))
    predicted = model.predict_distribution(encoder.transform(X_test))
    return {
        "inputs": model.n_features_in_,
        "rmse": metrics.rmse(y_test, predicted.mean),
        "log_likelihood": float(np.mean(predicted.logpdf(y_test))),
        "seconds": seconds,
    }


def cases(splits: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Return the fits; those that are compared follow one another."""
    for dataset, n_splits in splits.items():
        for split in range(n_splits):
            for evidence_cap in EVIDENCE_CAPS if dataset in BOUNDED else (None,):
                for encoding in ENCODINGS if evidence_cap is None else ENCODINGS[:2]:
                    n_bins = 0 if encoding == "columns" else _N_BINS
                    yield _case(dataset, split, encoding, n_bins, evidence_cap)
    for split in range(_N_FOLDS):
        yield _case(_DIABETES, split, "columns", 0, None)
        for n_bins in (8, _N_BINS):
            yield _case(_DIABETES, split, "ramps", n_bins, None)


def _case(
    dataset: str, split: int, encoding: str, n_bins: int, evidence_cap: float | None
) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "split": split,
        "encoding": encoding,
        "n_bins": n_bins,
        "evidence_cap": evidence_cap,
    }


def main(argv: Sequence[str] | None = None, load: Loader = load_split) -> None:
    parser = parser_of("encodings", __doc__, list(SPLITS))
    parser.add_argument(
        "--splits", type=int, default=max(SPLITS.values()), help="of a set, at most"
    )
    arguments = parser.parse_args(argv)
    splits = {name: min(SPLITS[name], arguments.splits) for name in arguments.sets}
    fold_0 = _case(_DIABETES, 0, "columns", 0, None)
    evaluate(**fold_0)  # the first fit of a process takes longer
    rows = rows_of(
        arguments.results / "encodings.jsonl", cases(splits), partial(evaluate, load=load)
    )
    write_pages(arguments.results, pages(rows))


def pages(rows: list[Figures]) -> dict[str, str]:
    """Return the tables and the sentence by the names of their files."""
    return {
        "encodings_sets": _sets_page(rows),
        "encodings_evidence_cap": _evidence_cap_page(rows),
        "encodings_diabetes": _diabetes_page(rows),
    }


def _values(rows: list[Figures], what: str, **case: Any) -> list[float]:
    return [row[what] for row in rows if case.items() <= row.items()]


def _sets_page(rows: list[Figures]) -> str:
    """Return a table of log-likelihoods, and one of errors and of what the ramps cost."""
    likely, errors = [], []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        if dataset == _DIABETES:
            continue
        of = {
            encoding: partial(_values, rows, dataset=dataset, encoding=encoding, evidence_cap=None)
            for encoding in ENCODINGS
        }
        log_p = {encoding: find("log_likelihood") for encoding, find in of.items()}
        likely.append(
            [
                f"{dataset} ({len(log_p['ramps'])})",
                *best_bold([mean(values, 2) for values in log_p.values()], max),
                difference(log_p["ramps"], log_p["columns"], 2),
            ]
        )
        rmse = [mean(find("rmse"), _SMALL.get(dataset, 2)) for find in of.values()]
        inputs = [int(np.median(of[encoding]("inputs"))) for encoding in ("columns", "ramps")]
        times = np.divide(of["ramps"]("seconds"), of["columns"]("seconds"))
        errors.append(
            [
                dataset,
                *best_bold(rmse, min),
                f"{inputs[0]} → {inputs[1]}",
                f"{np.median(times):.1f}",
            ]
        )
    tables = [
        table(["log-likelihood (splits)", *ENCODINGS, "ramps − columns"], likely),
        table(["RMSE", *ENCODINGS, "inputs", "processor time: ramps ÷ columns"], errors),
    ]
    return "\n\n".join(tables) + "\n"


def _evidence_cap_page(rows: list[Figures]) -> str:
    lines = [
        [
            f"{dataset}, {encoding}",
            *(
                mean(
                    _values(
                        rows,
                        "log_likelihood",
                        dataset=dataset,
                        encoding=encoding,
                        evidence_cap=evidence_cap,
                    ),
                    2,
                )
                for evidence_cap in EVIDENCE_CAPS
            ),
        ]
        for dataset in BOUNDED
        for encoding in ENCODINGS[:2]
    ]
    header = ["`evidence_cap=`", *("None" if m is None else f"{m:g}" for m in EVIDENCE_CAPS)]
    return table(header, lines) + "\n"


def _diabetes_page(rows: list[Figures]) -> str:
    columns, few, many = (
        mean(_values(rows, "log_likelihood", dataset=_DIABETES, n_bins=n_bins), 2)
        for n_bins in (0, 8, _N_BINS)
    )
    return (
        f"With `evidence_cap=None` all rows of the set in five folds make {columns}, {few} and "
        f"{many}: the more inputs, the more a bound on the evidence matters.\n"
    )


if __name__ == "__main__":
    main()

"""`probprop compare`: our models and other methods, on the same splits of the user's table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from probprop._version import INSTALL_LAB
from probprop.cli.arguments import Data, Drop, Features, column_names, given, whole
from probprop.cli.arguments import Task as TaskOption
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.tables import nameless, note_table, usable_columns, with_targets
from probprop.judged import LABELS, show

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import Array, FloatArray
    from probprop.cli.methods import Methods
    from probprop.table.target import Task

TEST_SHARE = 0.1
_MIN_ROWS = 20
_LEVEL = 0.05  # of significance
_REASON_LENGTH = 200  # of the reason why a method failed: its start tells most
_SMALLEST = 2.0**-52  # of a class probability in the log-loss, as in scikit-learn

COMPARE_EXAMPLES = """\b
Examples:
  probprop compare houses.csv --target price
  probprop compare houses.csv --target price --drop id --splits 20
  probprop compare houses.csv --target price --method PBPRegressorCV,GP
  probprop compare flowers.csv --target species
"""


_SHOWN: dict[Task, list[str]] = {
    "regression": ["log_likelihood", "rmse", "crps", "coverage_95"],
    "classification": ["log_loss", "accuracy", "brier", "roc_auc"],
}
"""The scores that are shown; the first one ranks the methods."""


class Table(NamedTuple):
    """An encoded table. A class is its index."""

    X: FloatArray  # (n, d), NaN where a value is missing
    y: Array  # (n,)
    task: Task = "regression"


class Job(NamedTuple):
    """What a method is made from; its split is not known to it."""

    method: str
    seed: int
    split: int = 0


def compare(
    context: typer.Context,
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to predict.")],
    task: TaskOption = "auto",
    features: Features = None,
    drop: Drop = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Methods by name.  [default: all]"),
    ] = None,
    splits: Annotated[
        Any,
        typer.Option(
            metavar="N", parser=whole(1), help="Number of random splits; each tests on a tenth."
        ),
    ] = 5,
    jobs: Annotated[
        Any,
        typer.Option(metavar="N", parser=whole(1), help="Fits at a time.  [default: all cores]"),
    ] = None,
    seed: Annotated[
        Any,
        typer.Option(metavar="N", parser=whole(0, 2**32 - 1), help="Same seed, same splits."),
    ] = 0,
) -> None:
    """Compare PBP with other methods on a table.

    Each method is fitted on nine tenths of the rows and scored on the others, several times, all
    on the same random splits. Methods are ordered by log-likelihood, or by log-loss for classes; p
    is the p-value of the difference from the first. The last line is without features: the mean
    of the training rows, or their class shares.

    Methods for numbers: PBP, PBPRegressorCV, BayesianRidge, GP, HistGB, RandomForest. The standard
    deviation of the last two, and of the mean in the last line, is the root mean squared error of a
    5-fold cross-validation. Methods for classes: PBP, PBPClassifierCV, LogisticRegression, GP,
    HistGB, RandomForest. The package probprop-lab adds GP ARD, MLP ensemble, deep ensemble,
    LightGBM, CatBoost, CatBoost constant and NGBoost for numbers, MLPClassifier and CatBoost for
    classes.
    """
    from probprop.cli.methods import baseline_for, methods_for

    terminal = terminal_of(context)
    table = _read(data, target, task, features, drop, terminal)
    known = methods_for(table.task)
    names = given(method) or list(known)
    chosen = _feasible(names, known, "standard input" if data == "-" else data, len(table.y))
    terminal.say(f"{plural(len(chosen) * splits, 'fit')} on {plural(len(table.y), 'row')}")
    scores, failed = _run(table, chosen, splits, seed, -1 if jobs is None else jobs, terminal)
    if not scores:
        raise ValueError(f"no method could be run; {'; '.join(failed)}")
    main, *others = _SHOWN[table.task]
    found = records(scores, main)
    without = _scores(table, baseline_for(table.task), splits, seed, 1)
    rows = [*found, Record("baseline", 0, without.mean().to_dict(), Lead(None, None, None))]
    header = ["method", LABELS[main], "behind the first", "p", *map(LABELS.__getitem__, others)]
    terminal.table([*header, "seconds"], [_line(main, others, row) for row in rows])
    large = [
        f"left out: {name} (at most {known[name].max_rows:,.0f} training rows are feasible)"
        for name in names
        if name not in chosen
    ]
    for note in (verdict(found, main), *failed, *large):
        terminal.say(note)


def _line(main: str, others: Sequence[str], record: Record) -> list[str]:
    """Return the cells of a method."""
    name, n_splits, scores, behind = record
    return [
        name,
        show(main, scores[main]),
        with_error(behind.mean, behind.se),
        "" if behind.p is None else f"{behind.p:.2g}",
        *(show(k, scores[k]) for k in others),
        show("seconds", float(f"{scores['seconds']:.2g}")) if n_splits else "",
    ]


def _read(
    data: str,
    target: str,
    task: str,
    features: list[str] | None,
    drop: list[str] | None,
    terminal: Terminal,
) -> Table:
    """Read and encode a table as `fit` does, and say what was found out about it."""
    import numpy as np

    from probprop.table import read_table
    from probprop.table.names import choose_features
    from probprop.table.target import decide_task, labels_of, target_of

    read = read_table(data)
    frame = with_targets(read, [target])
    columns = [str(name) for name in frame.columns]
    wanted = column_names(features, columns) if features else None
    unwanted = [*column_names(drop or [], columns), *nameless(frame, wanted, terminal)]
    chosen = choose_features(frame, [target], wanted, unwanted)
    note_table(terminal, read, frame, [target])
    encoder = usable_columns(frame, chosen, asked_for=wanted is not None, terminal=terminal)
    of_classes = task == "classification"
    if task == "auto":
        decided, words = decide_task(frame, [target])
        of_classes = decided == "classification"
        if of_classes or "--task" in words:
            terminal.say(f"{target!r} holds {words}")
    X = encoder.encode(frame)
    if n_missing := int(np.isnan(X).any(axis=1).sum()):
        terminal.note(
            f"{n_missing:,} of {plural(len(X), 'row')} have empty cells, which are filled, for "
            "every method, with the mean of their column in the rows it is fitted on"
        )
    if of_classes:
        index = np.unique(labels_of(frame, target), return_inverse=True)[1]
        return Table(X, index, "classification")
    y = target_of(frame, target)
    if y.min() == y.max():
        raise ValueError(f"the target {target!r} is {y[0]:g} in every row: nothing to predict")
    return Table(X, y)


def _feasible(names: Sequence[str], known: Methods, source: str, n: int) -> Methods:
    """Return the methods of these names that n rows are enough and not too many for."""
    from importlib.util import find_spec

    if unknown := [name for name in names if name not in known]:
        more = "" if find_spec("probprop_lab") else f"; more with {INSTALL_LAB.format('')}"
        raise ValueError(f"unknown method {unknown[0]}: choose among {', '.join(known)}{more}")
    if n < _MIN_ROWS:
        raise ValueError(
            f"{source} has {n} rows, too few to compare methods on: give at least {_MIN_ROWS}"
        )
    n_train = n - round(TEST_SHARE * n)
    feasible = {name: known[name] for name in names if n_train <= known[name].max_rows}
    if not feasible:
        raise ValueError(
            f"{source} has too many rows for {', '.join(names)}: choose other methods, or leave "
            "--method out"
        )
    return feasible


# ---- Fits


def _run(
    table: Table, chosen: Methods, splits: int, seed: int, n_jobs: int, terminal: Terminal
) -> tuple[dict[str, DataFrame], list[str]]:
    """Return the scores of methods that ran on all splits, and why the others failed."""
    from probprop.estimators.progress import Share

    total, done = sum(method.cost for method in chosen.values()), 0.0
    scores, failed = {}, []
    with terminal.share("comparing") as reach:
        for name, method in chosen.items():
            reach(Share(done / total, name))
            try:  # the failure of one method must not end the others
                estimator = method.make(Job(name, seed))
                scores[name] = _scores(table, estimator, splits, seed, n_jobs)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                reason = shorten(reason, _REASON_LENGTH, placeholder=" …")
                failed.append(f"{name} could not be run: {reason}")
            done += method.cost
    return scores, failed


def _scores(table: Table, estimator: Any, splits: int, seed: int, n_jobs: int) -> DataFrame:
    """Return the scores of a method, and the seconds of its fit, with a row per split."""
    import pandas as pd
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import cross_validate
    from sklearn.pipeline import make_pipeline

    # Most of the methods take no missing values, so all of them get the same numbers.
    filled = make_pipeline(SimpleImputer(keep_empty_features=True), estimator)
    options: Any = {"cv": splitter(table, splits, seed), "n_jobs": n_jobs, "error_score": "raise"}
    found = cross_validate(filled, table.X, table.y, scoring=_scorer(table), **options)
    scores = {name.removeprefix("test_"): values for name, values in found.items()}
    return pd.DataFrame(scores).rename(columns={"fit_time": "seconds"})


def _scorer(table: Table) -> Callable[[Any, FloatArray, Array], dict[str, float]]:
    """Return the scorer of a fitted pipeline on test rows."""
    import numpy as np

    from probprop.cli.methods import predictive
    from probprop.metrics import summary
    from probprop.metrics.classes import class_scores
    from probprop.metrics.scorers import log_probabilities

    shown = _SHOWN[table.task]

    def score(pipeline: Any, X: FloatArray, y: Array) -> dict[str, float]:
        X, estimator = pipeline[0].transform(X), pipeline[-1]
        if table.task == "regression":
            every = summary(y, predictive(estimator, X))
        else:
            # A class may have no training row; the log-loss has scikit-learn's least probability.
            log_proba = np.full((len(y), table.y.max() + 1), math.log(_SMALLEST))
            log_proba[:, estimator.classes_] = np.maximum(
                log_probabilities(estimator, X), math.log(_SMALLEST)
            )
            every = class_scores(y, log_proba)
        return {name: every[name] for name in shown}

    return score


def splitter(table: Table, splits: int, seed: int) -> Any:
    """Return the random splits, each of which tests on a tenth; of every class, if it can be."""
    import numpy as np
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    n_test = round(TEST_SHARE * len(table.y))
    if table.task == "classification":
        sizes = np.bincount(table.y)
        if sizes.min() > 1 and n_test >= len(sizes):
            return StratifiedShuffleSplit(splits, test_size=n_test, random_state=seed)
    return ShuffleSplit(splits, test_size=n_test, random_state=seed)


# ---- Who is ahead


class Lead(NamedTuple):
    """A mean difference, its standard error and its p-value; None where it is not known."""

    mean: float | None
    se: float | None
    p: float | None


def lead(differences: Sequence[float], test_share: float = TEST_SHARE) -> Lead:
    """Test whether the mean of differences over random splits of one table is zero.

    The splits share most of their training rows, so the plain standard error is too small: the
    corrected one of Nadeau and Bengio (2003) adds the ratio of test to training rows, as in
    ``std * sqrt(1/n + n_test/n_train)``. Student's t with n - 1 degrees of freedom.

    >>> lead([0.1, 0.3, 0.2, 0.2])
    Lead(mean=0.2, se=0.049..., p=0.026...)
    >>> lead([0.1])
    Lead(mean=0.1, se=None, p=None)
    """
    import numpy as np
    from scipy import stats

    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return Lead(mean, None, None)
    correction = 1.0 / n + test_share / (1.0 - test_share)
    se = float(np.std(differences, ddof=1)) * math.sqrt(correction)
    if se == 0.0:
        return Lead(mean, se, 1.0 if mean == 0.0 else 0.0)
    return Lead(mean, se, 2.0 * float(stats.t.sf(abs(mean) / se, n - 1)))


class Record(NamedTuple):
    """A method: its mean scores over the splits, and how far it is behind the first."""

    method: str
    n_splits: int
    scores: dict[str, float]
    behind: Lead


def records(scores: Mapping[str, DataFrame], main: str) -> list[Record]:
    """Return a record per method, the best in `main` first; all ran on the same splits."""
    sign = 1.0 if main == "log_loss" else -1.0  # makes it a loss
    losses = {name: sign * frame[main] for name, frame in scores.items()}
    first, *others = sorted(losses, key=lambda name: losses[name].mean())
    leads = {first: Lead(None, None, None)}
    leads |= {name: lead((losses[name] - losses[first]).tolist()) for name in others}
    return [
        Record(name, len(scores[name]), scores[name].mean().to_dict(), behind)
        for name, behind in leads.items()
    ]


def with_error(mean: float | None, se: float | None) -> str:
    """Write a mean with its standard error, two digits of the latter.

    >>> with_error(3.01423, 0.18), with_error(3.01423, None), with_error(None, None)
    ('3.01 ± 0.18', '3.014', '')
    """
    if mean is None:
        return ""
    if se is None or not (se > 0.0 and math.isfinite(mean)):
        return f"{mean:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(se)))
    return f"{mean:.{decimals}f} ± {se:.{decimals}f}"


def verdict(records: Sequence[Record], main: str) -> str:
    """Say which method is best, and which of the others are not significantly behind."""
    first, *others = records
    leads = f"{first.method} has the {'lowest' if main == 'log_loss' else 'highest'} {LABELS[main]}"
    if not others:
        return f"{first.method} was run alone: there is nothing to compare it with"
    if first.n_splits < 2:
        return f"{leads} on one split, which says nothing of significance: take 5 or more"
    close = [other.method for other in others if (other.behind.p or 0.0) >= _LEVEL]
    mean, se, p = others[0].behind
    by = f"{others[0].method}, the next, by {with_error(mean, se)} (p = {p:.2g})"
    if not close:
        return f"{leads}, and every other is significantly behind: {by}"
    return f"{leads}, but not significantly so against {', '.join(close)}: {by}"

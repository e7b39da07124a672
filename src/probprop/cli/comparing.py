"""`probprop compare`: our models and other methods, on the same splits of the user's table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Context, Option

from probprop._version import INSTALL_LAB
from probprop.cli import tables
from probprop.cli.arguments import DataFiles, Drop, Features, RandomState, column_names, input_paths
from probprop.cli.arguments import Task as TaskOption
from probprop.cli.console import Terminal, terminal_of
from probprop.judged import LABELS, show
from probprop.table.names import DEFAULT_SEED, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import Array, FloatArray
    from probprop.cli.methods import Methods
    from probprop.table.target import Task

TEST_SHARE = 0.1
_MIN_ROWS = 20
_LEVEL = 0.05  # of significance
_REASON_LENGTH = 200  # of the reason why a method failed: its start tells most
_BASELINE = "baseline"
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


class Job(NamedTuple):
    """What a method is made from; it does not depend on its split."""

    method: str
    seed: int
    split: int = 0


def compare(
    context: Context,
    data: DataFiles,
    target: Annotated[str, Option(metavar="COLUMN", help="Column to predict.")],
    task: TaskOption = "auto",
    features: Features = None,
    drop: Drop = None,
    method: Annotated[
        list[str] | None,
        Option(metavar="A,B,...", help="Names of the methods to run.  [default: all]"),
    ] = None,
    splits: Annotated[
        int, Option(metavar="N", min=1, help="Number of random splits; a tenth is the test set.")
    ] = 5,
    n_jobs: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Number of parallel fits.  [default: all cores]"),
    ] = None,
    random_state: RandomState = DEFAULT_SEED,
) -> None:
    """Compare PBP with other methods on a table.

    Each method is fitted on nine tenths of the rows and scored on the test set, several times, all
    on the same random splits. Methods are ordered by log-likelihood, or by log-loss for
    classification; p is the p-value of the difference from the first. The last line is a baseline
    without features: the mean of the training rows, or their class frequencies.

    Methods for regression: PBP, PBPRegressorCV, BayesianRidge, GP, HistGB, RandomForest. The
    standard deviation of the last two, and of the mean in the last line, is the root mean squared
    error of a 5-fold cross-validation. Methods for classification: PBP, PBPClassifierCV,
    LogisticRegression, GP, HistGB, RandomForest. The package probprop-lab adds GP ARD, MLP
    ensemble, deep ensemble, LightGBM, CatBoost, CatBoost constant and NGBoost for regression,
    MLPClassifier and CatBoost for classification.
    """
    from probprop.cli.methods import baseline_for, methods_for
    from probprop.estimators.progress import Share

    terminal = terminal_of(context)
    X, y, found = _read(terminal, input_paths(data), target, task, features, drop)
    known, (main, *others) = methods_for(found), _SHOWN[found]
    names = list(dict.fromkeys(column_names(method or [*known], [*known])))
    chosen = _feasible(names, known, len(y))
    terminal.say(f"{plural(len(chosen) * splits, 'fit')} on {plural(len(y), 'row')}")
    cv = splitter(y, found, splits, random_state)
    scores: dict[str, DataFrame] = {}
    failed = []
    total, done = sum(each.cost for each in chosen.values()), 0.0
    with terminal.share("comparing") as reach:
        for name, each in chosen.items():
            reach(Share(done / total, name))
            try:  # the failure of one method must not end the others
                made = each.make(Job(name, random_state))
                scores[name] = _scores(X, y, made, found, cv, n_jobs or -1)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                reason = shorten(reason, _REASON_LENGTH, placeholder=" …")
                failed.append(f"{name} could not be run: {reason}")
            done += each.cost
    if not scores:
        raise ValueError(f"no method could be run; {'; '.join(failed)}")
    behind = leads(scores, main)
    scores[_BASELINE] = _scores(X, y, baseline_for(found), found, cv, 1)
    rows = []
    for name, lead in [*behind.items(), (_BASELINE, NO_LEAD)]:
        means = scores[name].mean()
        seconds = show("seconds", float(f"{means['seconds']:.2g}"))
        rows.append(
            [
                *(name, show(main, means[main]), with_error(lead.mean, lead.se)),
                "" if lead.p is None else f"{lead.p:.2g}",
                *(show(key, means[key]) for key in others),
                "" if name == _BASELINE else seconds,
            ]
        )
    header = ["method", LABELS[main], "behind the first", "p", *map(LABELS.__getitem__, others)]
    terminal.table([*header, "seconds"], rows)
    large = [
        f"{name} was skipped: it accepts at most {known[name].max_rows:,.0f} training rows"
        for name in names
        if name not in chosen
    ]
    for note in (verdict(behind, main, splits), *failed, *large):
        terminal.say(note)


def _read(
    terminal: Terminal,
    paths: list[str],
    target: str,
    task: str,
    features: list[str] | None,
    drop: list[str] | None,
) -> tuple[FloatArray, Array, Task]:
    """Read and encode a table as `fit` does: X with NaN for missing values, and y.

    A class is its index.
    """
    import numpy as np

    from probprop.table.read import read_tables
    from probprop.table.target import labels_of, target_of

    read = read_tables(paths)
    frame = tables.with_targets(read, [target])
    tables.note_file(terminal, read)
    tables.note_left_out(terminal, len(read) - len(frame), [target])
    chosen = tables.features_of(terminal, frame, [target], features, drop)
    X = tables.encoder_of(terminal, frame, chosen, named=features is not None).encode(frame)
    of_classes = tables.is_classification(terminal, frame, [target], task)
    if n_missing := int(np.isnan(X).any(axis=1).sum()):
        terminal.note(
            f"{n_missing:,} of {plural(len(X), 'row')} have missing values, which are imputed for "
            "every method by the mean of their column in the training rows"
        )
    if of_classes:
        return X, np.unique(labels_of(frame, target), return_inverse=True)[1], "classification"
    y = target_of(frame, target)
    if y.min() == y.max():
        raise ValueError(f"the target {target!r} is {y[0]:g} in every row: nothing to predict")
    return X, y, "regression"


def _feasible(names: Sequence[str], known: Methods, n: int) -> Methods:
    """Return the methods of these names that can be fitted to n rows."""
    from importlib.util import find_spec

    if unknown := [name for name in names if name not in known]:
        more = "" if find_spec("probprop_lab") else f"; more with {INSTALL_LAB.format('')}"
        raise ValueError(f"unknown method {unknown[0]}: choose among {', '.join(known)}{more}")
    if n < _MIN_ROWS:
        raise ValueError(f"{n} rows are too few to compare methods: give at least {_MIN_ROWS}")
    n_train = n - round(TEST_SHARE * n)
    feasible = {name: known[name] for name in names if n_train <= known[name].max_rows}
    if not feasible:
        raise ValueError(
            f"the table has too many rows for {', '.join(names)}: choose other methods, or leave "
            "--method out"
        )
    return feasible


# ---- Fits


def _scores(X: FloatArray, y: Array, estimator: Any, task: Task, cv: Any, n_jobs: int) -> DataFrame:
    """Return the scores of a method, and the seconds of its fit, with a row per split."""
    import pandas as pd
    from sklearn.impute import SimpleImputer
    from sklearn.model_selection import cross_validate
    from sklearn.pipeline import make_pipeline

    # Most methods do not accept missing values, so all get the same imputed values.
    filled = make_pipeline(SimpleImputer(keep_empty_features=True), estimator)
    scoring: Any = _regression_scores if task == "regression" else _class_scores
    options: Any = {"scoring": scoring, "cv": cv, "n_jobs": n_jobs, "error_score": "raise"}
    found = cross_validate(filled, X, y, **options)
    scores = {name.removeprefix("test_"): values for name, values in found.items()}
    return pd.DataFrame(scores).rename(columns={"fit_time": "seconds"})


def _regression_scores(pipeline: Any, X: FloatArray, y: Array) -> dict[str, float]:
    from probprop.metrics import summary
    from probprop.metrics.scorers import predictive

    return summary(y, predictive(pipeline, X))


def _class_scores(pipeline: Any, X: FloatArray, y: Array) -> dict[str, float]:
    import numpy as np

    from probprop.metrics.classes import class_scores
    from probprop.metrics.scorers import log_probabilities

    # A class may have no training row; the log-loss has scikit-learn's least probability.
    classes = pipeline[-1].classes_
    log_proba = np.full((len(y), 1 + max(y.max(), classes.max())), math.log(_SMALLEST))
    log_proba[:, classes] = np.maximum(log_probabilities(pipeline, X), math.log(_SMALLEST))
    return class_scores(y, log_proba)


def splitter(y: Array, task: Task, splits: int, seed: int) -> Any:
    """Return the random splits, each of which tests on a tenth; of every class, if it can be."""
    import numpy as np
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

    n_test, sizes = round(TEST_SHARE * len(y)), np.unique(y, return_counts=True)[1]
    stratified = task == "classification" and sizes.min() > 1 and n_test >= len(sizes)
    cls = StratifiedShuffleSplit if stratified else ShuffleSplit
    return cls(splits, test_size=n_test, random_state=seed)


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


NO_LEAD = Lead(None, None, None)


def leads(scores: Mapping[str, DataFrame], main: str) -> dict[str, Lead]:
    """Return how far each method is behind the first, the best in `main` first."""
    sign = 1.0 if main == "log_loss" else -1.0  # makes it a loss
    losses = {name: sign * frame[main] for name, frame in scores.items()}
    first, *others = sorted(losses, key=lambda name: losses[name].mean())
    return {first: NO_LEAD} | {k: lead((losses[k] - losses[first]).tolist()) for k in others}


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


def verdict(behind: Mapping[str, Lead], main: str, splits: int) -> str:
    """Say which method is best, and which methods are not significantly behind."""
    first, *others = behind
    best = f"{first} has the {'lowest' if main == 'log_loss' else 'highest'} {LABELS[main]}"
    if not others:
        return f"{first} was run alone: there is nothing to compare it with"
    if splits < 2:
        return f"{best} on one split, which is too few for a p-value: use 5 or more"
    close = [other for other in others if (behind[other].p or 0.0) >= _LEVEL]
    mean, se, p = behind[others[0]]
    by = f"{others[0]}, the second, is behind by {with_error(mean, se)} (p = {p:.2g})"
    if not close:
        return f"{best}, significantly ahead of every other method: {by}"
    return f"{best}, not significantly ahead of {', '.join(close)}: {by}"

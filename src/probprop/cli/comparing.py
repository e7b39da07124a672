"""`probprop compare`: our models and other methods, on the same splits of the user's table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from probprop._version import INSTALL_LAB
from probprop.cli.arguments import Data, Drop, Features, Report, check_range, column_names, given
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.output import check_destinations, naming
from probprop.cli.scores import LABELS, show
from probprop.cli.tables import nameless, note_table, usable_columns, with_targets
from probprop.cli.training import AUTO, TaskOption

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from probprop._types import Array, FloatArray
    from probprop.cli.methods import Method, Methods
    from probprop.table.target import Task

TEST_SHARE = 0.1
_MIN_ROWS = 20
_LEVEL = 0.05  # of significance
_REASON_LENGTH = 200  # of the reason why a method failed: its start tells most
_SMALLEST = 2.0**-52  # of a class probability in the log-loss, as in scikit-learn

COMPARE_EXAMPLES = """\b
Examples:
  probprop compare houses.csv --target price
  probprop compare houses.csv --target price --drop id --splits 20 --report houses.html
  probprop compare houses.csv --target price --method PBPRegressorCV,GP
  probprop compare flowers.csv --target species
"""


class Table(NamedTuple):
    """An encoded table. A class is its index."""

    X: FloatArray  # (n, d), NaN where a value is missing
    y: Array  # (n,)
    n_classes: int = 0  # 0 for regression

    @property
    def task(self) -> Task:
        """Whether the target is a number or a class."""
        return "classification" if self.n_classes else "regression"

    @property
    def shown(self) -> list[str]:
        """The scores that are shown; the first one ranks the methods."""
        if self.n_classes:
            return ["log_loss", "accuracy", "brier", "roc_auc"]
        return ["log_likelihood", "rmse", "crps", "coverage_95"]


class Job(NamedTuple):
    """One fit of one method."""

    method: str
    split: int
    seed: int  # of the split, and of the method's own random numbers


def compare(
    context: typer.Context,
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Column to predict.")],
    task: Annotated[
        TaskOption, typer.Option(help="What the target is: a number, or a class.")
    ] = AUTO,
    features: Features = None,
    drop: Drop = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Methods by name.  [default: all]"),
    ] = None,
    splits: Annotated[
        int, typer.Option(metavar="N", help="Number of random splits; each tests on a tenth.")
    ] = 5,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Fits at a time.  [default: all cores]")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same splits.")] = 0,
    report: Report = None,
) -> None:
    """Compare PBP with other methods on a table.

    Each method is fitted on nine tenths of the rows and scored on the others, several times, all
    on the same random splits. Methods are ordered by log-likelihood, or by log-loss for classes; p
    is the p-value of the difference from the first. The last line is without features: the mean
    and standard deviation, or the class shares, of the training rows.

    Methods for numbers: PBP, PBPRegressorCV, BayesianRidge, GP, HistGB, RandomForest. The standard
    deviation of the last two is the error of a cross-validation. Methods for classes: PBP,
    PBPClassifierCV, LogisticRegression, GP, HistGB, RandomForest. The package probprop-lab adds
    GP ARD, MLP ensemble, deep ensemble, LightGBM, CatBoost, CatBoost constant and NGBoost for
    numbers, MLPClassifier and CatBoost for classes.
    """
    check_range("--splits", splits, 1, math.inf)
    check_range("--seed", seed, 0, 2**32 // 1000 - 1)
    if jobs is not None:
        check_range("--jobs", jobs, 1, math.inf)
    check_destinations({"--report": report}, {"DATA": data})
    from probprop.cli.methods import methods_for

    terminal = terminal_of(context)
    table = _read(data, target, task, features, drop, terminal)
    known = methods_for(table.task)
    names = given(method) or list(known)
    chosen = _feasible(names, known, "standard input" if data == "-" else data, len(table.y))
    seeds = range(1000 * seed, 1000 * seed + splits)
    terminal.say(f"{plural(len(chosen) * splits, 'fit')} on {plural(len(table.y), 'row')}")
    rows, failed = _run(table, chosen, seeds, -1 if jobs is None else jobs, terminal)
    if not rows:
        raise ValueError(f"no method could be run; {'; '.join(failed)}")
    found = records(rows, table.shown[0])
    lines = _lines(table, found, seeds)
    terminal.table(*lines)
    large = [
        f"left out: {name} (at most {known[name].max_rows:,.0f} training rows are feasible)"
        for name in names
        if name not in chosen
    ]
    notes = [verdict(found, table.shown[0]), *failed, *large]
    for note in notes:
        terminal.say(note)
    if report is not None:
        with naming(report):
            _write_report(report, target, lines, notes, found)
        terminal.say(f"wrote {report}")


def _read(
    data: str,
    target: str,
    task: TaskOption,
    features: list[str] | None,
    drop: list[str] | None,
    terminal: Terminal,
) -> Table:
    """Read and encode a table as `fit` does, and say what was found out about it."""
    import numpy as np

    from probprop.table import read_table
    from probprop.table.encoding import fit_encoder
    from probprop.table.names import choose_features
    from probprop.table.target import decide_task, labels_of, target_of

    read = read_table(data)
    frame = with_targets(read, [target])
    columns = [str(name) for name in frame.columns]
    wanted = column_names(features, columns) if features else None
    unwanted = [*column_names(drop or [], columns), *nameless(frame, wanted, terminal)]
    chosen = choose_features(frame, [target], wanted, unwanted)
    note_table(terminal, read, frame, [target])
    kinds = usable_columns(frame, chosen, asked_for=wanted is not None, terminal=terminal)
    chosen = list(kinds)
    of_classes = task is TaskOption.classification
    if task is TaskOption.auto:
        decided, words = decide_task(frame, [target])
        of_classes = decided == "classification"
        if of_classes or "--task" in words:
            terminal.say(f"{target!r} holds {words}")
    X = fit_encoder(frame[chosen])[1]
    if n_missing := int(np.isnan(X).any(axis=1).sum()):
        terminal.note(
            f"{n_missing:,} of {plural(len(X), 'row')} have empty cells, which are filled, for "
            "every method, with the mean of their column in the rows it is fitted on"
        )
    if of_classes:
        classes, index = np.unique(labels_of(frame, target), return_inverse=True)
        return Table(X, index, len(classes))
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
    table: Table, chosen: Methods, seeds: Sequence[int], n_jobs: int, terminal: Terminal
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of methods that ran on all splits, and why the others failed."""
    from joblib import Parallel, delayed

    from probprop.estimators.progress import Share

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    jobs = [Job(name, split, seed) for name in chosen for split, seed in enumerate(seeds)]
    total, done = sum(chosen[job.method].cost for job in jobs), 0.0
    rows = []
    with warnings.catch_warnings(), terminal.share("comparing") as reach:
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        for row in parallel(delayed(_attempt)(table, job, chosen[job.method]) for job in jobs):
            done += chosen[row["method"]].cost
            reach(Share(done / total, f"{row['method']}, split {row['split']}"))
            rows.append(row)
    reasons = {row["method"]: row["failure"] for row in rows if "failure" in row}
    failed = [f"{name} could not be run: {reason}" for name, reason in reasons.items()]
    return [row for row in rows if row["method"] not in reasons], failed


def _attempt(table: Table, job: Job, method: Method) -> dict[str, Any]:
    """Run a job on one core; the failure of one method must not end the others."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    try:
        with threadpool_limits(1):
            return job._asdict() | _measure(table, job, method)
    except Exception as error:
        failure = shorten(f"{type(error).__name__}: {error}", _REASON_LENGTH, placeholder=" …")
        return job._asdict() | {"failure": failure}


def _measure(table: Table, job: Job, method: Method) -> dict[str, float]:
    """Fit on the training rows of a split; return the scores on its test rows, and the seconds."""
    import numpy as np
    from sklearn.impute import SimpleImputer

    from probprop.cli import methods
    from probprop.metrics import summary
    from probprop.metrics.scorers import log_probabilities

    y = table.y
    train, test = split(table, job.seed)
    # Most of the methods take no missing values, so all of them get the same numbers.
    X = SimpleImputer(keep_empty_features=True).fit(table.X[train]).transform(table.X)
    estimator = method.make(job)
    predict = log_probabilities if table.n_classes else methods.predictive
    found, seconds, _ = methods.fit_and_predict(estimator, X[train], y[train], X[test], predict)
    if not table.n_classes:
        return {**summary(y[test], found), "seconds": seconds}
    log_proba = np.full((len(test), table.n_classes), -np.inf)  # a class may have no training row
    log_proba[:, estimator.classes_] = found
    return {**_class_scores(y[test], log_proba), "seconds": seconds}


def _class_scores(y: Array, log_proba: FloatArray) -> dict[str, float]:
    """Return the metrics of classes; the log-loss has scikit-learn's smallest probability."""
    import numpy as np

    from probprop.metrics.classes import class_scores

    return class_scores(y, np.maximum(log_proba, math.log(_SMALLEST)))


def split(table: Table, seed: int) -> tuple[Array, Array]:
    """Return the rows to train and to test on: a tenth, and a tenth of every class.

    >>> import numpy as np
    >>> train, test = split(Table(np.zeros((20, 1)), np.arange(20.0)), 0)
    >>> len(train), test
    (18, array([ 1, 18]))
    """
    import numpy as np

    random = np.random.RandomState(seed)
    order = random.permutation(len(table.y))
    test = order[: round(TEST_SHARE * len(order))]
    if table.n_classes:
        every = round(1.0 / TEST_SHARE)
        test = order[np.argsort(table.y[order], kind="stable")][random.randint(every) :: every]
    return np.setdiff1d(order, test), np.sort(test)


def _baseline(table: Table, seed: int) -> dict[str, float]:
    """Score a split without features; nothing if all training rows have the same target."""
    import numpy as np

    from probprop.metrics import baseline_summary

    train, test = (table.y[rows] for rows in split(table, seed))
    if not table.n_classes:
        return baseline_summary(test, float(train.mean()), float(train.std())) or {}
    shares = np.bincount(train, minlength=table.n_classes) / len(train)
    with np.errstate(divide="ignore"):
        return _class_scores(test, np.tile(np.log(shares), (len(test), 1)))


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


def records(rows: Sequence[dict[str, Any]], main: str) -> list[Record]:
    """Return a record per method, the best in `main` first; all ran on the same splits."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    sign = 1.0 if main == "log_loss" else -1.0  # makes it a loss
    losses = sign * frame.pivot(index="split", columns="method", values=main)
    means = frame.groupby("method").mean(numeric_only=True)
    first, *others = losses.mean().sort_values(kind="stable").index
    leads = {first: Lead(None, None, None)}
    leads |= {name: lead((losses[name] - losses[first]).tolist()) for name in others}
    return [Record(k, len(losses), means.loc[k].to_dict(), behind) for k, behind in leads.items()]


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


# ---- What is shown


def _lines(
    table: Table, records: Sequence[Record], seeds: Sequence[int]
) -> tuple[list[str], list[list[str]]]:
    """Return the header, a line per method, and the line of the baseline."""
    import pandas as pd

    main, *others = table.shown
    header = [LABELS[main], "behind the first", "p", *(LABELS[k] for k in others)]
    baseline = pd.DataFrame([_baseline(table, seed) for seed in seeds], columns=table.shown)
    without = Record("baseline", 0, baseline.mean().to_dict(), Lead(None, None, None))
    lines = [
        [
            name,
            show(main, scores[main]),
            with_error(behind.mean, behind.se),
            "" if behind.p is None else f"{behind.p:.2g}",
            *(show(k, scores[k]) for k in others),
            show("seconds", float(f"{scores['seconds']:.2g}")) if "seconds" in scores else "",
        ]
        for name, _, scores, behind in (*records, without)
    ]
    return ["method", *header, "processor seconds"], lines


def _write_report(
    path: str,
    target: str,
    lines: tuple[list[str], list[list[str]]],
    notes: Sequence[str],
    records: Sequence[Record],
) -> None:
    from probprop.report import Section, write_report
    from probprop.report.document import picture

    by = f"{lines[0][1]}: behind {records[0].method}, ± standard error"

    def draw(ax: Axes) -> None:
        for i, record in enumerate(records):
            behind, se, _ = record.behind
            ax.errorbar(behind or 0.0, i, xerr=se or 0.0, fmt="o", color="C0")
        ax.set_yticks(range(len(records)), [record.method for record in records])
        ax.invert_yaxis()
        ax.set_xlabel(by)

    words = "\n\n".join(f"{note[:1].upper()}{note[1:]}." for note in notes)
    section = Section(f"Methods by {lines[0][1]}", words, lines, figures=[picture(draw, by)])
    write_report(path, f"Methods for predicting {target}", [section])

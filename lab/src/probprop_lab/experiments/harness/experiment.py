"""What an experiment is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from probprop_lab.experiments.harness.columns import Column, Record, Table
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.methods import KNOWN, Methods
from probprop_lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Selection:
    """Which part of an experiment to run; None is what the paper did.

    Parameters
    ----------
    datasets : sequence of str or None, default=None
    n_splits : int or None, default=None
        Maximum number of splits, or repetitions, of each set.
    seed : int, default=0
    methods : sequence of str or None, default=None
        Names that `methods.find` knows; None is PBP, and in the experiments toy and field all
        that are installed.
    show : bool, default=False
        Rows that are there already are wanted: nothing has to be installed.
    """

    datasets: Sequence[str] | None = None
    n_splits: int | None = None
    seed: int = 0
    methods: Sequence[str] | None = None
    show: bool = False


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Parameters
    ----------
    name : str
    title : str
    text : str
        What it shows, in plain sentences.
    jobs : callable
        From a `Selection` to the jobs.
    measure : callable
        From a job to what it measured: the row without the identifying fields.
    records : callable
        From rows to the lines of the table.
    columns : sequence of Column
    notes : callable
        From records to sentences about them.
    summaries : callable
        From records to further tables, each with its title.
    figures : callable
        From rows to pairs of a Matplotlib figure and what it shows in words; drawn only
        where they are wanted.
    methods : mapping of str to Method
        What its jobs may name, each in the form that this experiment uses.
    timed : callable
        From rows to those whose seconds are in the table.
    check : callable or None, default=None
        Refuses jobs that cannot be run here, before any is run; None checks their methods.
    cost : callable or None, default=None
        From a job to its work in weight updates of PBP; None is that on the benchmark sets.
    """

    name: str
    title: str
    text: str
    jobs: Callable[[Selection], list[Job]]
    measure: Callable[[Job], Row]
    records: Callable[[Sequence[Row]], list[Record]]
    columns: Sequence[Column]
    notes: Callable[[Sequence[Record]], list[str]] = lambda records: []
    summaries: Callable[[Sequence[Record]], list[tuple[str, Table]]] = lambda records: []
    figures: Callable[[Sequence[Row]], list[tuple[Figure, str]]] = lambda rows: []
    timed: Callable[[Sequence[Row]], list[Row]] = list
    methods: Methods = field(default_factory=lambda: KNOWN)
    check: Callable[[Iterable[Job]], None] | None = None
    cost: Callable[[Job], float] | None = None

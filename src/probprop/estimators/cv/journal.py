"""The trainings of a race in a file: a race that was broken off goes on where it was.

Without a budget of seconds all that a race does follows from what its trainings reach. So the same
race is run again, and steps that are in the file are not trained again, to the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from probprop._types import Array
from probprop.estimators.checkpoints import check_seed, checkpoint_of, resumed, settings_of
from probprop.estimators.cv import search
from probprop.estimators.cv.folds import Fold
from probprop.estimators.cv.policy import Budget
from probprop.estimators.cv.search import Step
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, Origin, digest
from probprop.inference.training import Run

_Path = str | os.PathLike[str]


class Journal:
    """The steps of the trainings of a race, numbered, in a file.

    A step in the middle between two comparisons, the checks of the budget, is dropped once the next
    one is there, which then has the epochs of both. `step` makes the epochs that are not in the
    file; None is `search.advance`.
    """

    def __init__(self, file: CheckpointFile, budget: Budget, step: Step | None = None) -> None:
        self._file, self._checks, self._step = file, {*budget.checks}, step
        self._steps: dict[int, list[Checkpoint]] = {}
        kept = file.read_all()
        with file.reading():
            for found in kept:
                self._steps.setdefault(int(found.label), []).append(found)
        self._last = max(self._steps, default=-1)
        self._n_steps = 0
        self._n_skipped = 0  # epochs of steps that a later one in the file has too

    def advance(
        self, runs: Sequence[Run], n_epochs: int, n_threads: int
    ) -> tuple[list[Run], BaseException | None]:
        """Make more epochs of every training, as `search.advance` does, or find them."""
        step, self._n_steps = self._n_steps, self._n_steps + 1
        if step in self._steps:
            with self._file.reading():
                made = [_resumed(*pair) for pair in zip(runs, self._steps[step], strict=True)]
                if {len(run.made) for run in made} != {self._n_skipped + n_epochs}:
                    raise ValueError("a step does not have the epochs that it made")
            self._n_skipped = 0
            return made, None
        if step <= self._last:  # a later one has these epochs too
            self._n_skipped += n_epochs
            with self._file.reading():
                reached = {run.fitted.epoch.n_iter + self._n_skipped for run in runs}
                if reached & self._checks:
                    raise ValueError("a step before a comparison is missing")
            return [run._replace(made=[]) for run in runs], None
        made, interrupt = (self._step or search.advance)(runs, n_epochs, n_threads)
        if interrupt is None:
            self._keep(step, made)
        return made, interrupt

    def _keep(self, step: int, made: Sequence[Run]) -> None:
        before = self._steps.get(step - 1, [])
        reached = {run.fitted.epoch.n_iter - len(run.made) for run in made}
        goes_on = len(before) == len(made) and all(
            old.state.n_iter == run.fitted.epoch.n_iter - len(run.made)
            for old, run in zip(before, made, strict=True)
        )
        parts = [replace(checkpoint_of(run, list(run.made)), label=str(step)) for run in made]
        if goes_on and not reached & self._checks:
            pairs = zip(parts, before, strict=True)
            parts = [replace(new, history=[*old.history, *new.history]) for new, old in pairs]
            del self._steps[step - 1]
        self._steps[step] = parts
        self._last = step
        self._file.offer_all([each for own in self._steps.values() for each in own])

    def flush(self) -> None:
        """Write what is not written yet."""
        self._file.flush()


def journal_of(
    path: _Path,
    model: Any,
    arrays: Sequence[Array | None],
    folds: Sequence[Fold],
    budget: Budget,
    step: Step | None = None,
) -> Journal:
    """Return the journal of a race with the parameters of a model, on these rows and folds.

    Seeds that are drawn anew, and seconds, would make it another race: they are refused.
    """
    check_seed(model.random_state)
    if budget.seconds is not None:
        raise ValueError(
            f"with checkpoint, budget must be a name: what {model.budget!r} seconds are enough for "
            'depends on the machine. Give "fast", "good" or "best".'
        )
    of_folds = [rows for fold in folds for rows in (fold.train, fold.test)]
    origin = Origin(digest([*arrays, *of_folds]), settings_of(model))
    return Journal(CheckpointFile(path, origin), budget, step)


@contextmanager
def written_at_the_end(journal: Journal | None) -> Iterator[None]:
    """Write what is left at the end, whatever ends it."""
    try:
        yield
    finally:
        if journal is not None:
            journal.flush()


def _resumed(run: Run, found: Checkpoint) -> Run:
    """Return a training as far as a step had come, with the epochs that it made."""
    run, made = resumed(run, found)
    return run._replace(made=made)

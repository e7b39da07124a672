"""Small data: how much of an epoch is Python and not the kernel."""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from benchmarks.agreement import check_posteriors
from benchmarks.cases import made_data
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, verdict
from probprop import PBPRegressor
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop.inference.task import Task

SIZES = ((30, 5), (277, 6))  # rows and features
_HIDDEN = (50,)
_EPOCHS = (10, 310)
_MOST_MICROSECONDS = 15.0


def run(effort: Effort) -> Outcome:
    """Time everything as a difference of two sizes, so that what a call costs drops out."""
    epochs: defaultdict[str, list[float]] = defaultdict(list)
    kernel: defaultdict[str, list[float]] = defaultdict(list)
    names = {size: f"{size[0]} x {size[1]}" for size in SIZES}
    for size, name in names.items():
        _check(name, *size)
    for repetition in range(effort.n_repetitions):
        say(f"small fits: repetition {repetition + 1} of {effort.n_repetitions}")
        for size, name in names.items():
            epochs[name].append(_epoch(*size, effort))
            kernel[name].append(_kernel(*size, effort))
    overhead = {
        name: [1e6 * (a - b) for a, b in zip(epochs[name], kernel[name], strict=True)]
        for name in names.values()
    }
    short = [name for name, found in overhead.items() if median(found) > _MOST_MICROSECONDS]
    return Outcome(
        title=f"Python per epoch of a fit, 50 hidden units (medians of {effort.n_repetitions})",
        header=["rows x features", "µs per epoch", "of them kernel", "Python", "at most", ""],
        rows=[
            [
                name,
                f"{1e6 * median(epochs[name]):.1f}",
                f"{1e6 * median(kernel[name]):.1f}",
                f"{median(overhead[name]):.1f}",
                f"{_MOST_MICROSECONDS:.0f}",
                verdict(name not in short),
            ]
            for name in names.values()
        ],
        figures=[
            Figure(f"Python, µs per epoch of {name}", overhead[name]) for name in names.values()
        ],
        notes=[
            f"Epochs: fits of {_EPOCHS[1]} minus fits of {_EPOCHS[0]} epochs. Kernel: the same in",
            "one call of the engine, which makes the orders, the passes and the refinements.",
            "Checked: fits of 5 epochs agree with the reference's.",
        ],
        measured={
            "epoch_seconds": dict(epochs),
            "kernel_seconds": dict(kernel),
            "python_microseconds": overhead,
        },
        missed=[
            f"small fits: {median(overhead[name]):.0f} µs of Python per epoch of {name}, above "
            f"{_MOST_MICROSECONDS:.0f}"
            for name in short
        ],
    )


def _fit(n_rows: int, n_features: int, n_epochs: int, engine: str = "native") -> PBPRegressor:
    X, y = made_data(n_rows, n_features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        model = PBPRegressor(_HIDDEN, n_epochs=n_epochs, random_state=0, engine=engine)
        return model.fit(X, y)


def _check(name: str, n_rows: int, n_features: int) -> None:
    native, reference = (_fit(n_rows, n_features, 5, engine) for engine in ENGINES)
    check_posteriors(f"small fits, {name}", native.posterior_, reference.posterior_)


def _per_step(work: Callable[[int], object], few: int, many: int) -> float:
    """Return the processor time of one step, from work of few and of many."""
    short, _ = timed(functools.partial(work, few))
    long, _ = timed(functools.partial(work, many))
    return (long - short) / (many - few)


def _epoch(n_rows: int, n_features: int, effort: Effort) -> float:
    most = effort.of(_EPOCHS[1], least=20)
    return _per_step(functools.partial(_fit, n_rows, n_features), _EPOCHS[0], most)


def _kernel(n_rows: int, n_features: int, effort: Effort) -> float:
    """Return the processor time of an epoch of the same fit, all of them in one call."""
    X, y = made_data(n_rows, n_features)
    likelihood, random_state = Gaussian(), np.random.RandomState(0)
    before = training.start(Plan(likelihood, _HIDDEN), Inputs(X), y, random_state)

    def epochs(n: int) -> None:
        task = Task(
            posterior=before.posterior,
            X=X,
            X_var=None,
            y=y,
            standardizer=before.standardizer,
            likelihood=likelihood,
            memory=None,
            refine=np.ones(n, bool),
            random_state=np.random.RandomState(0),
        )
        ENGINES["native"].train([task])

    return _per_step(epochs, _EPOCHS[0], effort.of(_EPOCHS[1], least=20))

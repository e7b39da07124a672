"""Budgets in seconds: what `PBPRegressorCV` takes of them, and why it took less."""

from __future__ import annotations

import warnings
from functools import partial

from sklearn.datasets import make_friedman1

from benchmarks.agreement import WrongAnswerError
from benchmarks.clock import say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Outcome, verdict
from probprop import PBPRegressorCV

N_ROWS = (300, 1_500, 10_000)
SECONDS = (3.0, 10.0, 30.0)
_N_FEATURES = 10
_MOST_OFF = 0.2  # of the seconds
_OUT_OF_TIME = "out of time"


def run(effort: Effort) -> Outcome:
    """Fit once with each budget: the share of the seconds varies little from run to run."""
    rows, missed, measured = [], [], {}
    for n_rows in (effort.of(n, least=30) for n in N_ROWS):
        X, y = make_friedman1(n_rows, _N_FEATURES, noise=1.0, random_state=0)
        for seconds in SECONDS if effort.judged else (0.2,):
            name = f"{n_rows:,} rows, {seconds:g} s"
            say(f"budgets: {name}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                model = PBPRegressorCV(budget=seconds, random_state=0)
                taken, _ = timed(partial(model.fit, X, y))
            share, ended = taken / seconds, model.choice_.ended
            if not ended or (effort.judged and model.score(X, y) < 0.5):
                raise WrongAnswerError(f"budgets: {name} ended for no reason, or learned nothing")
            ended_early = ended != _OUT_OF_TIME and share < 1.0
            passed = ended_early or abs(share - 1.0) <= _MOST_OFF
            if not passed and effort.judged:
                missed.append(f"budgets: {name} took {taken:.1f} s")
            networks = f"{len(model.estimators_)}"
            rows.append([name, f"{taken:.1f}", f"{share:.0%}", networks, ended, verdict(passed)])
            measured[name] = {"seconds": taken, "ended": ended}
    return Outcome(
        title="Budgets of PBPRegressorCV, processor seconds on one thread",
        header=["table and budget", "seconds", "of it", "networks", "ended", ""],
        rows=rows,
        notes=[
            f"Asked for: within {_MOST_OFF:.0%} of the seconds, or less where nothing was left to "
            "do.",
            "Checked: every fit says why it ended, and predicts the rows that it learned.",
        ],
        measured=measured,
        missed=missed,
    )

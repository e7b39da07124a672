"""What a cross-validated estimator compares, and how long: a function of the samples and task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from probprop.distributions.base import short_repr
from probprop.estimators.validation import (
    check_above,
    check_evidence_cap,
    check_int,
    check_layer_sizes,
    check_option,
    check_share,
)

# ---- Constants of the search

MANY_ROWS = 5_000  # regression: samples from which on there are more bins, and two folds decide
VERY_MANY_ROWS = 20_000  # regression: samples from which on one fold decides
LARGE = 100_000  # samples from which on a table is large, see `is_large`
HELD_OUT = 20_000  # samples in each of the two validation sets of a large table
AS_IF = 25_000  # samples that the epochs of a budget are meant for, if a table is large
MIN_ROWS_FOR_POWER = 100  # samples: a line that is hardly known, as an exponential, goes anywhere
MIN_ROWS_FOR_NOISE = 20  # out-of-fold samples from which on noise="auto" tries a noise network
MANY_CLASSES = 32  # above which candidates train for fewer epochs, as an epoch takes longer
LEAST_SHARE_OF_EPOCHS = 0.1  # of a budget, whatever the number of classes
CHECKS = (20, 40, 80, 160, 320)  # epochs after which candidates are compared
FIRST_CUT = 40  # epochs after which one evidence cap of each form is left
CLEAR = 2.0  # standard errors above which a mean difference between candidates is clear
N_STALE = 2  # comparisons without a gain after which a candidate is dropped
MOST_PARTITIONS = 6  # K-fold partitions used to train the selected candidate, at most
SHARE_OF_POWERS = 0.2  # of the seconds, or of the work, for the best with a power of the targets
SHARE_AFTER = 0.1  # of the seconds, at least, for the calibration
MOST_OVER = 0.1  # of the seconds, by which the last partition may be late
TIMING_COST = 50.0  # a throw-away timing run is made if the budget allows this times its cost

Noise = Literal["auto", "constant", "input"]


@dataclass(frozen=True)
class Candidate:
    """Hyperparameters of a network that are worth a try.

    Parameters
    ----------
    n_bins : int or None, default=None
        Ramps per column, at least 2, as in `PiecewiseLinearEncoder`. None is the columns alone.
    hidden : int or sequence of int, default=(50,)
        Units in each hidden layer. The attribute is a tuple.
    evidence_cap : float or None, default=None
        Effective sample size of the posterior at most, in multiples of the number of samples; at
        least 1. None has no cap.
    power : float or None, default=None
        Regression only: power of `BoxCox`, between 0, the logarithm, and 1, applied to the targets,
        which must be above 0. None uses the targets as they are.
    noise : {"auto", "constant", "input"}, default="auto"
        Regression only: whether the calibrated noise is the same everywhere, or heteroscedastic, by
        a noise network trained on out-of-fold residuals. "auto" uses that network if it gains
        anything on samples that it has not seen.

    Examples
    --------
    >>> from probprop import Candidate
    >>> Candidate(n_bins=32, hidden=20)
    Candidate(n_bins=32, hidden=(20,), evidence_cap=None)
    """

    n_bins: int | None = None
    hidden: int | Sequence[int] = (50,)
    evidence_cap: float | None = None
    power: float | None = None
    noise: Noise = "auto"

    def __post_init__(self) -> None:
        if self.n_bins is not None:
            check_int("n_bins of a candidate", self.n_bins, 2)
        if isinstance(self.evidence_cap, str):
            raise TypeError(
                f"evidence_cap of a candidate must be a float or None. Got "
                f"{self.evidence_cap!r} instead."
            )
        check_evidence_cap(self.evidence_cap)
        vars(self)["hidden"] = tuple(check_layer_sizes(self.hidden, "hidden of a candidate"))
        if self.power is not None:
            check_share("power of a candidate", self.power)
        check_option("noise of a candidate", self.noise, list(get_args(Noise)))

    def __repr__(self) -> str:
        usual = {"power": None, "noise": "auto"}
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        shown = {k: v for k, v in values.items() if k not in usual or v != usual[k]}
        return short_repr(self, *(f"{k}={v!r}" for k, v in shown.items()))

    @property
    def layers(self) -> tuple[int, ...]:
        """Units in each hidden layer."""
        return tuple(check_layer_sizes(self.hidden))

    @property
    def in_words(self) -> str:
        """What it is, in full, but for the power of the targets."""
        encoding = "features as they are"
        if self.n_bins is not None:
            encoding = f"{self.n_bins} ramps beside each feature"
        sizes = self.layers
        layers = "no hidden layer" if not sizes else f"a layer of {sizes[0]:,} units"
        if len(sizes) > 1:
            layers = f"layers of {', '.join(f'{n:,}' for n in sizes[:-1])} and {sizes[-1]:,} units"
        cap = self.evidence_cap
        bound = "no evidence cap" if cap is None else f"evidence cap of {cap:g}"
        return f"{encoding}, {layers}, {bound}"

    @property
    def form(self) -> tuple[int | None, tuple[int, ...], float | None, Noise]:
        """All but the evidence cap: candidates of one form differ in that only."""
        return self.n_bins, self.layers, self.power, self.noise


@dataclass(frozen=True)
class Budget:
    """How long candidates train."""

    checks: tuple[int, ...] = CHECKS  # epochs after which candidates are compared, ascending
    seconds: float | None = None  # processor time of all threads together; None has no bound
    most_after: float = np.inf  # seconds that a noise network may take, which else is not tried
    first_cut: int = FIRST_CUT  # epochs after which one evidence cap of each form is left
    chunk: int = 10  # epochs between two looks at the clock

    def with_epochs(self, epochs: Callable[[int], float]) -> Budget:
        """Return the budget with other numbers of epochs, rounded up, as a function of each."""
        *checks, first_cut = (int(np.ceil(epochs(n))) for n in (*self.checks, self.first_cut))
        return replace(self, checks=tuple(sorted(set(checks))), first_cut=first_cut)

    def less(self, seconds: float) -> Budget:
        """Return what is left after so many seconds."""
        return self if self.seconds is None else replace(self, seconds=self.seconds - seconds)


BUDGETS = {"fast": Budget(CHECKS[:3]), "good": Budget(), "best": Budget((*CHECKS, 640, 1280))}


def read_budget(budget: Any) -> Budget:
    """Check the parameter: a name, or seconds of processor time."""
    if isinstance(budget, str):
        check_option("budget", budget, list(BUDGETS))
        return BUDGETS[budget]
    if isinstance(budget, bool | np.bool_):
        raise TypeError(
            f"budget must be one of {list(BUDGETS)} or seconds of processor time, not bool."
        )
    check_above("budget", budget, 0.0)
    return Budget(BUDGETS["best"].checks, float(budget), budget / 3.0)


def for_many_classes(budget: Budget, n_classes: int) -> Budget:
    """Return the budget of a classification: the more classes above 32, the fewer epochs.

    An epoch takes longer, but fewer are needed: with 100 classes of synthetic data, 5 to 26.
    """
    if n_classes <= MANY_CLASSES:
        return budget
    share = max(LEAST_SHARE_OF_EPOCHS, MANY_CLASSES / n_classes)
    chunk = int(np.ceil(budget.chunk * share))
    fewer = replace(budget, checks=budget.checks[:-1], chunk=chunk)
    return fewer.with_epochs(lambda n: n * share)


def work_of_a_row(sizes: Sequence[int]) -> float:
    """Return the time of a row through layers of these sizes, inputs and outputs included.

    As measured, a weight of a later layer takes twice the time of the first, a unit 25 times.
    """
    first, *later = ((n_in + 1) * n_out for n_in, n_out in pairwise(sizes))
    return first + 2.0 * sum(later) + 25.0 * sum(sizes[1:])


def is_large(n_rows: int) -> bool:
    """Return whether the time of a fit should no longer grow with the number of samples.

    A network that has seen a few million samples, each a few times, is as good as one that has seen
    few very often. So epochs are scaled by `shown_as_often`, samples are held out twice, `HELD_OUT`
    each, and one network per candidate decides, also about a power of the targets. The best then
    trains the others: two for each of two partitions.
    """
    return n_rows >= LARGE


def shown_as_often(budget: Budget, n_rows: int) -> Budget:
    """Return the budget that shows as many samples, n_rows an epoch, as it has with `AS_IF`."""
    return replace(budget.with_epochs(lambda n: n * AS_IF / n_rows), chunk=1)


@dataclass(frozen=True)
class Forms:
    """What is compared: encodings, layers and evidence caps; "fast" has the first of each."""

    n_bins: int  # ramps per column
    plain: tuple[tuple[int, ...], ...]  # units of the hidden layers on the columns alone
    ramped: tuple[tuple[int, ...], ...]  # and on columns and ramps
    evidence_caps: tuple[float | None, ...]


@dataclass(frozen=True)
class Usual:
    """The candidates of ``candidates="auto"``, and how they are compared."""

    few: Forms  # below rows[0] samples
    many: Forms
    most_bins: int  # also tried by the budget "best"
    stratified: bool = False  # whether the folds share each value of the targets alike
    powers: bool = False  # whether the best is tried with a power of the targets, if all are > 0
    rows: tuple[int, int] = (MANY_ROWS, VERY_MANY_ROWS)  # from which on two folds, or one, decide
    n_errors: float = 0.0  # below rows[0]: standard errors by which a cheaper winner may be behind


# Layers of 48 and 96 units fill vectors of 16 numbers of single precision: a training takes a fifth
# less time than with 50, which are no better (`benchmarks.guide.bases`).
_ONE_OR_TWO = ((48,), (48, 48))
_OF_FEW_VALUES = Forms(16, _ONE_OR_TWO, _ONE_OR_TWO, (10.0, 30.0, None))
OF_VALUES = Usual(
    _OF_FEW_VALUES, many=replace(_OF_FEW_VALUES, n_bins=32), most_bins=64, powers=True
)
# With few rows, differences in out-of-fold log-loss are mostly chance, and what costs less is as
# good on new rows, or better. Two layers on ramps over-fit; one wide layer does not.
OF_LABELS = Usual(
    few=Forms(16, ((48,), (), (10,), (20,), (48, 48)), ((48,),), (10.0, 30.0)),
    many=Forms(32, ((96,), (), (48, 48)), ((96,),), (10.0, 30.0)),
    most_bins=64,
    stratified=True,
    rows=(1_000, 5_000),
    n_errors=1.0,
)


def usual_candidates(
    budget: str | float,
    n_rows: int,
    usual: Usual = OF_VALUES,
    bins_that_fit: Callable[[int], int] = int,
    *,
    one_evidence_cap: bool = False,
) -> list[Candidate]:
    """Return the candidates of ``candidates="auto"``.

    `bins_that_fit` takes a number of bins and returns one that is not too costly, or 1 for none.
    With `one_evidence_cap` only the first one is compared: few epochs do not tell them apart.
    """
    forms = usual.few if n_rows < usual.rows[0] else usual.many
    fast, best = budget == "fast", budget == "best"
    ramps = map(bins_that_fit, [forms.n_bins, *([usual.most_bins] if best else [])])
    layers: dict[int | None, tuple[tuple[int, ...], ...]] = {None: forms.plain}
    layers |= dict.fromkeys((n_bins for n_bins in ramps if n_bins > 1), forms.ramped)
    deeper = ((96, 96),) if best else ()
    return [
        Candidate(n_bins, hidden, evidence_cap)
        for n_bins, sizes in layers.items()
        for hidden in (*sizes, *deeper)[: 1 if fast else None]
        for evidence_cap in forms.evidence_caps[: 1 if fast or one_evidence_cap else None]
    ]


def n_first_folds(n_rows: int, usual: Usual = OF_VALUES) -> int | None:
    """Return how many folds a race is run on, fewer if there are many rows; None: all of them."""
    many, very_many = usual.rows
    if n_rows < many:
        return None
    return 2 if n_rows < very_many else 1


def n_errors_behind(n_rows: int, usual: Usual) -> float:
    """Return by how many standard errors a candidate that costs less may be behind the leader."""
    return usual.n_errors if n_rows < usual.rows[0] else 0.0


def read_candidates(
    candidates: Any,
    budget: str | float,
    n_rows: int,
    usual: Usual = OF_VALUES,
    bins_that_fit: Callable[[int], int] = int,
    *,
    one_evidence_cap: bool = False,
) -> list[Candidate]:
    """Check the parameter: "auto", or candidates, which may be written as dicts."""
    if isinstance(candidates, str):
        check_option("candidates", candidates, ["auto"])
        return usual_candidates(
            budget, n_rows, usual, bins_that_fit, one_evidence_cap=one_evidence_cap
        )
    if isinstance(candidates, Mapping | Candidate) or not np.iterable(candidates):
        raise TypeError(
            'candidates must be "auto" or a sequence of Candidate or of dicts. '
            f"Got {candidates!r} instead."
        )
    if not len(found := [_read_candidate(candidate) for candidate in candidates]):
        raise ValueError("candidates must have at least one entry. Got none.")
    if len(set(found)) < len(found):
        raise ValueError(f"candidates must differ from each other. Got {found}.")
    if len({replace(candidate, noise="auto") for candidate in found}) < len(found):
        raise ValueError(
            'candidates must differ in more than their noise: they train alike, and noise="auto" '
            f"judges both kinds of noise on the rows held out. Got {found}."
        )
    return found


def _read_candidate(candidate: Any) -> Candidate:
    if isinstance(candidate, Candidate):
        return candidate
    if not isinstance(candidate, Mapping):
        raise TypeError(f"each of candidates must be a Candidate or a dict. Got {candidate!r}.")
    names = [field.name for field in fields(Candidate)]
    if unknown := [key for key in candidate if key not in names]:
        raise ValueError(f"a candidate has the keys {names}. Got {unknown} in {dict(candidate)}.")
    return Candidate(**candidate)

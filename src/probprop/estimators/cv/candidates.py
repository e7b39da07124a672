"""What a cross-validated estimator compares: candidates, and how long they may train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np

from probprop.distributions.base import short_repr
from probprop.estimators.validation import (
    check_above,
    check_int,
    check_layer_sizes,
    check_memory,
    check_option,
    check_share,
)

MANY_ROWS = 5_000
"""Of a regression: from so many rows on, more bins are tried, since there are rows to fill them."""

VERY_MANY_ROWS = 20_000

MANY_CLASSES = 32
"""Number of classes above which candidates train for fewer epochs, as an epoch takes longer."""
_LEAST_SHARE = 0.1  # of the epochs, whatever the number of classes

FIRST_CUT = 40
"""Epochs after which one memory of each form is left."""

_CHECKS = (20, 40, 80, 160, 320)

Noise = Literal["auto", "constant", "input"]
"""What the noise of a regression depends on."""


@dataclass(frozen=True)
class Candidate:
    """Settings of a network that are worth a try.

    Parameters
    ----------
    n_bins : int or None, default=None
        Ramps per column that stand beside it, as of `PiecewiseLinearEncoder`; None: the columns
        alone.
    hidden : int or sequence of int, default=(50,)
        Units in each hidden layer. The attribute is a tuple.
    memory : float or None, default=None
        The most evidence the posterior holds, in passes over the data, at least 1; None has no
        bound.
    power : float or None, default=None
        Of the targets of a regression, all above 0, that the networks predict: the power of
        `BoxCox`, between 0, the logarithm, and 1; None: targets as they are.
    noise : {"auto", "constant", "input"}, default="auto"
        Of a regression, after calibration: the same everywhere, or larger and smaller with the
        inputs, as a noise network says that learns from the rows held out. "auto" takes that
        network where it gains anything on rows that it has not seen.

    Examples
    --------
    >>> from probprop import Candidate
    >>> Candidate(n_bins=32, hidden=20)
    Candidate(n_bins=32, hidden=(20,), memory=None)
    >>> Candidate(power=0.5)
    Candidate(n_bins=None, hidden=(50,), memory=None, power=0.5)
    >>> Candidate(noise="constant")
    Candidate(n_bins=None, hidden=(50,), memory=None, noise='constant')
    """

    n_bins: int | None = None
    hidden: int | Sequence[int] = (50,)
    memory: float | None = None
    power: float | None = None
    noise: Noise = "auto"

    def __post_init__(self) -> None:
        if self.n_bins is not None:
            check_int("n_bins of a candidate", self.n_bins, 2)
        if isinstance(self.memory, str):
            raise TypeError(
                f"memory of a candidate must be a float or None. Got {self.memory!r} instead."
            )
        check_memory(self.memory)
        sizes = check_layer_sizes(self.hidden, "hidden of a candidate")
        vars(self)["hidden"] = tuple(sizes)
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
    def form(self) -> tuple[int | None, tuple[int, ...], float | None, Noise]:
        """All but the memory: candidates of one form differ in that only."""
        return self.n_bins, self.layers, self.power, self.noise


@dataclass(frozen=True)
class Budget:
    """How far a race goes.

    Parameters
    ----------
    checks : tuple of int
        Epochs after which the candidates are compared, ascending.
    seconds : float or None, default=None
        Of processor time, that of all threads of the process together; None has no bound.
    most_after : float, default=inf
        Seconds that may be left for a noise network, which else is not tried.
    first_cut : int, default=40
        Epochs after which one memory of each form is left.
    chunk : int, default=10
        Epochs between two looks at the clock.
    """

    checks: tuple[int, ...] = _CHECKS
    seconds: float | None = None
    most_after: float = np.inf
    first_cut: int = FIRST_CUT
    chunk: int = 10

    def with_epochs(self, epochs: Callable[[int], int]) -> Budget:
        """Return the budget with other numbers of epochs: `epochs` of those there were."""
        checks = tuple(sorted(set(map(epochs, self.checks))))
        return replace(self, checks=checks, first_cut=epochs(self.first_cut))

    def less(self, seconds: float) -> Budget:
        """Return what is left after so many seconds."""
        return self if self.seconds is None else replace(self, seconds=self.seconds - seconds)


BUDGETS = {
    "fast": Budget(_CHECKS[:3]),
    "good": Budget(),
    "best": Budget((*_CHECKS, 640, 1280)),
}
"""Budgets that have a name."""


def read_budget(budget: Any) -> Budget:
    """Check the parameter: a name, or seconds of processor time.

    Examples
    --------
    >>> read_budget("fast").checks, read_budget(30).seconds, read_budget(30).most_after
    ((20, 40, 80), 30.0, 10.0)
    """
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

    The time of an epoch grows with the number of classes, while networks on the plain features need
    few epochs: on synthetic data with 100 classes their log-loss was lowest after 5 to 26. So the
    epochs are divided by a 32nd of the number of classes, at most by 10, and the last comparison
    is left out.

    Examples
    --------
    >>> for_many_classes(Budget(), 100).checks, for_many_classes(Budget(), 32).checks
    ((7, 13, 26, 52), (20, 40, 80, 160, 320))
    """
    if n_classes <= MANY_CLASSES:
        return budget
    share = max(_LEAST_SHARE, MANY_CLASSES / n_classes)

    def epochs(n: int) -> int:
        return int(np.ceil(n * share))

    fewer = replace(budget, checks=budget.checks[:-1], chunk=epochs(budget.chunk))
    return fewer.with_epochs(epochs)


@dataclass(frozen=True)
class Forms:
    """Encodings, layers and memories that are compared.

    Parameters
    ----------
    n_bins : int
        Ramps per column.
    plain, ramped : tuple of tuple of int
        Units of the hidden layers on the columns alone, and beside ramps. The first of each is
        that of the budget "fast".
    memories : tuple of float or None
        The first is that of the budget "fast".
    """

    n_bins: int
    plain: tuple[tuple[int, ...], ...]
    ramped: tuple[tuple[int, ...], ...]
    memories: tuple[float | None, ...]


@dataclass(frozen=True)
class Usual:
    """What ``candidates="auto"`` is made of, and how candidates are compared.

    Parameters
    ----------
    few, many : Forms
        With few rows, and with many.
    most_bins : int
        Of the budget "best" besides.
    powers : bool, default=False
        Whether the best candidate is tried with a power of the targets, if all are above 0.
    rows : tuple of int, default=(MANY_ROWS, VERY_MANY_ROWS)
        From which on there are many, and the race is run on two folds; and from which on it is
        run on one.
    n_errors : float, default=0.0
        With few rows a candidate that costs less than the leader is chosen if it is behind by no
        more than so many standard errors of their difference.
    """

    few: Forms
    many: Forms
    most_bins: int
    powers: bool = False
    rows: tuple[int, int] = (MANY_ROWS, VERY_MANY_ROWS)
    n_errors: float = 0.0


_ONE_OR_TWO = ((50,), (50, 50))
_OF_FEW_VALUES = Forms(32, _ONE_OR_TWO, _ONE_OR_TWO, (10.0, 30.0, None))
OF_VALUES = Usual(
    _OF_FEW_VALUES, many=replace(_OF_FEW_VALUES, n_bins=64), most_bins=128, powers=True
)
"""What is compared for a regression."""
OF_LABELS = Usual(
    few=Forms(16, ((50,), (), (10,), (20,), (50, 50)), ((50,),), (10.0, 30.0)),
    many=Forms(32, ((100,), (), (50, 50)), ((100,),), (10.0, 30.0)),
    most_bins=128,
    rows=(1_000, 5_000),
    n_errors=1.0,
)
"""What is compared for a classification.

With few rows, differences in log-loss on those held out are mostly chance, and what costs less is
as good on new rows, or better. Two layers on ramps over-fit; one wide layer does not.
"""


def usual_candidates(
    budget: str | float,
    n_rows: int,
    usual: Usual = OF_VALUES,
    bins_that_fit: Callable[[int], int] = int,
    *,
    one_memory: bool = False,
) -> list[Candidate]:
    """Return the candidates of ``candidates="auto"``.

    Parameters
    ----------
    budget : str or float
        As `read_budget` takes it.
    n_rows : int
    usual : Usual, default=OF_VALUES
    bins_that_fit : callable, default=int
        Given a number of bins, returns one that is not too costly; 1: none is not.
    one_memory : bool, default=False
        Whether the first of the memories alone is compared: few epochs do not tell them apart.

    Examples
    --------
    >>> [c.n_bins for c in usual_candidates("fast", n_rows=500)]
    [None, 32]
    >>> len(usual_candidates("good", n_rows=500))
    12
    """
    forms = usual.few if n_rows < usual.rows[0] else usual.many
    ramps = [forms.n_bins, *([usual.most_bins] if budget == "best" else [])]
    fitting = dict.fromkeys(n_bins for n_bins in map(bins_that_fit, ramps) if n_bins > 1)
    layers: dict[int | None, tuple[tuple[int, ...], ...]] = {None: forms.plain}
    layers |= dict.fromkeys(fitting, forms.ramped)
    deeper = ((100, 100),) if budget == "best" else ()
    found = [
        Candidate(n_bins, hidden, memory)
        for n_bins, sizes in layers.items()
        for hidden in (*sizes, *deeper)
        for memory in forms.memories[: 1 if one_memory else None]
    ]
    if budget != "fast":
        return found
    return [Candidate(n_bins, sizes[0], forms.memories[0]) for n_bins, sizes in layers.items()]


def n_first_folds(n_rows: int, usual: Usual = OF_VALUES) -> int | None:
    """Return how many folds a race is run on; None: all of them.

    The more rows are held out, the fewer folds tell candidates apart.
    """
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
    one_memory: bool = False,
) -> list[Candidate]:
    """Check the parameter: "auto", or candidates, which may be written as dicts."""
    if isinstance(candidates, str):
        check_option("candidates", candidates, ["auto"])
        return usual_candidates(budget, n_rows, usual, bins_that_fit, one_memory=one_memory)
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

"""What `probprop fit` and `probprop active` fit: settings that are chosen, or one network.

A recipe makes the estimators, shows how far their fits have come, and says what they chose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import typer

from probprop.cli.arguments import check_range, evidence_cap_of, layers
from probprop.cli.console import Terminal

BUDGETS = ("fast", "good", "best")
_FIRST_SHARE = 0.75  # of the seconds; the rest is for the fit on all rows


class Precision(StrEnum):
    """The precision of the weights; float32 is about twice as fast and predicts the same."""

    float64 = "float64"
    float32 = "float32"


class NoiseOption(StrEnum):
    """Whether the noise is the same in every row, or depends on the features."""

    constant = "constant"
    input = "input"


class TailOption(StrEnum):
    """How often large errors are: as often as a Gaussian has them, or as often as is learned."""

    gaussian = "gaussian"
    heavy = "heavy"


# ---- One network, as the options say


@dataclass(frozen=True)
class NetworkOptions:
    """The options that belong to one network, as they were given; None where they were not."""

    hidden_layer_sizes: str | None = None
    n_epochs: int | None = None
    evidence_cap: str | None = None
    noise: NoiseOption | None = None
    noise_tail: TailOption | None = None
    n_members: int | None = None
    dtype: Precision | None = None

    @property
    def given(self) -> list[str]:
        """The names of those that were given, as they are typed.

        >>> NetworkOptions(hidden_layer_sizes="50", noise_tail=TailOption.heavy).given
        ['--hidden-layer-sizes', '--noise-tail']
        """
        names = [field.name for field in fields(self)]
        return [f"--{k.replace('_', '-')}" for k in names if getattr(self, k) is not None]

    def check(self) -> None:
        """Refuse values that no network has, in the words of a usage error."""
        layers(self.hidden_layer_sizes or "50")
        evidence_cap_of(self.evidence_cap or "none")
        if self.n_epochs is not None:
            check_range("--n-epochs", self.n_epochs, 1, math.inf)
        if self.n_members is not None:
            check_range("--n-members", self.n_members, 1, 1000)

    def check_classes(self, target: str) -> None:
        """Refuse what only numbers have."""
        for option, value, usual in (
            ("--noise", self.noise, NoiseOption.constant),
            ("--noise-tail", self.noise_tail, TailOption.gaussian),
        ):
            if value not in (None, usual):
                raise typer.BadParameter(
                    f"{target!r} holds classes, which have no noise", param_hint=option
                )


@dataclass(frozen=True)
class OneNetwork:
    """The paper's protocol, or what the options say: nothing is compared."""

    options: NetworkOptions
    of_classes: bool
    seed: int
    missing: str = "error"

    @property
    def _n_members(self) -> int:
        return self.options.n_members or 1

    def first(self, *, again: bool) -> Any:
        """Return the estimator to fit, which another follows if `again`: a network, or several."""
        from probprop.estimators.ensemble import PBPEnsemble

        n_members, single = self._n_members, self._single()
        return single if n_members == 1 else PBPEnsemble(single, n_members, n_jobs=-1)

    def _single(self) -> Any:
        from probprop.estimators.classifier import PBPClassifier
        from probprop.estimators.regressor import PBPRegressor

        options = self.options
        values = {
            "n_epochs": options.n_epochs,
            "dtype": options.dtype,
            "noise": options.noise,
            "noise_tail": options.noise_tail,
        }
        if self.of_classes:
            values = {k: v for k, v in values.items() if not k.startswith("noise")}
        # What was not given has the default of its estimator.
        parameters: dict[str, Any] = {
            k: v.value if isinstance(v, StrEnum) else v for k, v in values.items() if v is not None
        }
        if options.evidence_cap is not None:
            parameters["evidence_cap"] = evidence_cap_of(options.evidence_cap)
        kind: Any = PBPClassifier if self.of_classes else PBPRegressor
        sizes = layers(options.hidden_layer_sizes or "50")
        return kind(sizes, missing=self.missing, random_state=self.seed, **parameters)

    def again(self, fitted: Any) -> Any:
        """Return the estimator for all rows, after one fitted on some of them: the same."""
        return self.first(again=False)

    def refits(self, n_rows: int) -> bool:
        """Return True: one network costs little."""
        return True

    def progress(
        self, terminal: Terminal, text: str
    ) -> AbstractContextManager[Callable[[Any], None]]:
        """Count epochs; the members of an ensemble make theirs at the same time."""
        n_epochs = self._single().n_epochs if self._n_members == 1 else None
        return terminal.epochs(text, n_epochs, show_noise=not self.of_classes)

    def choice(self, fitted: Any) -> str:
        """Say nothing."""
        return ""


# ---- Settings chosen on held-out rows


@dataclass(frozen=True)
class Choosing:
    """`PBPRegressorCV` or `PBPClassifierCV`; on all rows it takes the best settings alone."""

    budget: str | float
    of_classes: bool
    seed: int
    missing: str = "error"

    def first(self, *, again: bool) -> Any:
        """Return the estimator that compares."""
        from probprop.estimators.cv.classifier import PBPClassifierCV
        from probprop.estimators.cv.regressor import PBPRegressorCV

        kind: Any = PBPClassifierCV if self.of_classes else PBPRegressorCV
        return kind(
            budget=self._share(_FIRST_SHARE) if again else self.budget,
            missing=self.missing,
            n_jobs=-1,
            random_state=self.seed,
        )

    def again(self, fitted: Any) -> Any:
        """Return the estimator with the candidate that was chosen as its only one."""
        rest = replace(self, budget=self._share(1.0 - _FIRST_SHARE)).first(again=False)
        return rest.set_params(candidates=[fitted.choice_.candidate])

    def refits(self, n_rows: int) -> bool:
        """Return whether a tenth more rows may teach anything."""
        from probprop.estimators.cv.policy import is_large

        return not is_large(n_rows)

    def _share(self, share: float) -> str | float:
        return self.budget if isinstance(self.budget, str) else share * self.budget

    def progress(
        self, terminal: Terminal, text: str
    ) -> AbstractContextManager[Callable[[Any], None]]:
        """Show the share of the work that is done."""
        return terminal.share(text)

    def choice(self, fitted: Any) -> str:
        """Say what was chosen and how it was calibrated."""
        from probprop.report import calibration_in_words, choice_in_words  # slow to import

        return f"chosen: {choice_in_words(fitted)}\ncalibrated: {calibration_in_words(fitted)}"


Recipe = OneNetwork | Choosing
"""How a model is fitted, once to judge it and perhaps again on all rows."""


# ---- Which of the two


def budget_of(text: str | None) -> str | float:
    """Parse a budget: a name, or seconds of processor time.

    >>> budget_of(None), budget_of("fast"), budget_of("90")
    ('good', 'fast', 90.0)
    """
    if text is None:
        return "good"
    if text in BUDGETS:
        return text
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise typer.BadParameter(
            f"{text!r} is neither {', '.join(BUDGETS)} nor a number of seconds above 0",
            param_hint="--budget",
        )
    return seconds


def check_no_budget(reasons: Sequence[str], *, fast: bool, budget: str | None) -> None:
    """Refuse a budget where one network is fitted: with --fast, or for these reasons."""
    if budget is not None and (fast or reasons):
        word = "--fast" if fast else reasons[0]
        raise typer.BadParameter(
            f"with {word} one network is fitted and no settings are compared: leave one of the "
            "two out",
            param_hint="--budget",
        )


def check_no_seconds(checkpoint: str | None, budget: str | float) -> None:
    """Refuse a checkpoint of a comparison that ends after some seconds."""
    if checkpoint is not None and not isinstance(budget, str):
        raise typer.BadParameter(
            "what seconds are enough for depends on the machine, so the same command would not go "
            f"on to the same model: give {', '.join(BUDGETS)}, or leave --checkpoint out",
            param_hint="--budget",
        )


def recipe_of(
    terminal: Terminal,
    options: NetworkOptions,
    reasons: Sequence[str],
    *,
    fast: bool,
    budget: str | None,
    of_classes: bool,
    seed: int,
    missing: str,
) -> Recipe:
    """Return one network with --fast, or for reasons, which are then told; else a comparison.

    `reasons` are what one network alone can do, such as options, as the user knows it. A `budget`
    that was given is refused with one network.
    """
    check_no_budget(reasons, fast=fast, budget=budget)
    if reasons and not fast:
        listed = " and ".join([", ".join(reasons[:-1]), reasons[-1]] if reasons[1:] else reasons)
        terminal.note(
            f"with {listed} one network is fitted, as with --fast, and no settings are compared"
        )
    if fast or reasons:
        return OneNetwork(options, of_classes, seed, missing)
    return Choosing(budget_of(budget), of_classes, seed, missing)

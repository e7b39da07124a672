"""What `probprop fit` and `probprop active` fit: settings that are chosen, or one network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import typer

from probprop.cli.arguments import check_range, evidence_cap_of, layers
from probprop.cli.console import Terminal

BUDGETS = ("fast", "good", "best")


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


def one_network(options: NetworkOptions, of_classes: bool, seed: int, missing: str) -> Any:
    """Return the estimator of the paper's protocol, or as the options say: one network, or several.

    What was not given has the default of its estimator.
    """
    from probprop.estimators.classifier import PBPClassifier
    from probprop.estimators.ensemble import PBPEnsemble
    from probprop.estimators.regressor import PBPRegressor

    values = {
        "n_epochs": options.n_epochs,
        "dtype": options.dtype,
        "noise": options.noise,
        "noise_tail": options.noise_tail,
    }
    if of_classes:
        values = {k: v for k, v in values.items() if not k.startswith("noise")}
    parameters: dict[str, Any] = {
        k: v.value if isinstance(v, StrEnum) else v for k, v in values.items() if v is not None
    }
    if options.evidence_cap is not None:
        parameters["evidence_cap"] = evidence_cap_of(options.evidence_cap)
    kind: Any = PBPClassifier if of_classes else PBPRegressor
    sizes = layers(options.hidden_layer_sizes or "50")
    single = kind(sizes, missing=missing, random_state=seed, **parameters)
    n_members = options.n_members or 1
    return single if n_members == 1 else PBPEnsemble(single, n_members, n_jobs=-1)


# ---- What is fitted


@dataclass(frozen=True)
class Recipe:
    """An estimator to fit, how its progress is shown, and what is said about it."""

    estimator: Any  # not fitted
    cross_validated: bool  # whether hyperparameters are chosen, and samples are out of fold
    of_classes: bool

    def progress(
        self, terminal: Terminal, text: str
    ) -> AbstractContextManager[Callable[[Any], None]]:
        """Show the share of the work that is done, or count epochs.

        The members of an ensemble make their epochs at the same time.
        """
        if self.cross_validated:
            return terminal.share(text)
        n_epochs = getattr(self.estimator, "n_epochs", None)
        return terminal.epochs(text, n_epochs, show_noise=not self.of_classes)

    def choice(self, fitted: Any) -> str:
        """Say what was chosen and how it was calibrated; nothing of one network."""
        if not self.cross_validated:
            return ""
        from probprop.report import calibration_in_words, choice_in_words  # slow to import

        return f"chosen: {choice_in_words(fitted)}\ncalibrated: {calibration_in_words(fitted)}"


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
        estimator = one_network(options, of_classes, seed, missing)
        return Recipe(estimator, cross_validated=False, of_classes=of_classes)
    from probprop.estimators.cv.classifier import PBPClassifierCV
    from probprop.estimators.cv.regressor import PBPRegressorCV

    kind: Any = PBPClassifierCV if of_classes else PBPRegressorCV
    chosen = kind(budget=budget_of(budget), missing=missing, n_jobs=-1, random_state=seed)
    return Recipe(chosen, cross_validated=True, of_classes=of_classes)

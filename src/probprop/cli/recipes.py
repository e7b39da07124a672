"""What `fit` and `active` fit: one network, or an estimator that selects its hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from typer import BadParameter

from probprop.cli.console import Terminal
from probprop.table.names import in_words

OF_NETWORK = ("hidden_layer_sizes", "n_epochs", "evidence_cap", "noise", "noise_tail", "dtype")
"""Options of one network, which imply ``--fast``."""


def option(name: str) -> str:
    """Return an option as it is typed.

    >>> option("n_epochs")
    '--n-epochs'
    """
    return f"--{name.replace('_', '-')}"


def check_budget(reasons: Sequence[str], *, fast: bool, budget: str | None) -> None:
    """Refuse a budget where one network is fitted."""
    if budget is not None and (fast or reasons):
        raise BadParameter(
            f"with {'--fast' if fast else reasons[0]} one network is fitted and no hyperparameters "
            "are selected: leave one of the two out",
            param_hint="--budget",
        )


def estimator_of(
    terminal: Terminal,
    options: Mapping[str, Any],
    reasons: Sequence[str],
    *,
    fast: bool,
    budget: str | None,
    of_classes: bool,
    seed: int,
    missing: str,
    support: Any = "auto",
) -> Any:
    """Return one network with --fast or for `reasons`, with a note; else a cross-validation.

    `options` are the given options of one network, by name; `reasons` are the options that need
    one network, as the user typed them.
    """
    check_budget(reasons, fast=fast, budget=budget)
    if reasons and not fast:
        terminal.note(
            f"with {in_words(reasons)} one network is fitted, as with --fast, and no "
            "hyperparameters are selected"
        )
    common: dict[str, Any] = {"missing": missing, "random_state": seed}
    if not (fast or reasons):
        from probprop.estimators.cv.classifier import PBPClassifierCV
        from probprop.estimators.cv.regressor import PBPRegressorCV

        common |= {"budget": budget or "good", "n_jobs": -1}
        if of_classes:
            return PBPClassifierCV(**common)
        return PBPRegressorCV(**common, support=support)
    from probprop.estimators.classifier import PBPClassifier
    from probprop.estimators.regressor import PBPRegressor

    common["missing"] = "error" if missing == "error" else "marginalize"
    given = {k: v for k, v in options.items() if not (of_classes and k.startswith("noise"))}
    if given.get("evidence_cap") == math.inf:
        given["evidence_cap"] = None
    return (PBPClassifier if of_classes else PBPRegressor)(**common, **given)


def selects(estimator: Any) -> bool:
    """Whether an estimator selects its hyperparameters, and has out-of-fold samples."""
    return hasattr(estimator, "budget")


def progress_of(
    terminal: Terminal, estimator: Any, text: str
) -> AbstractContextManager[Callable[[Any], None]]:
    """Show the share of the work that is done, or count epochs."""
    if selects(estimator):
        return terminal.share(text)
    return terminal.epochs(text, estimator.n_epochs)


def say_choice(terminal: Terminal, fitted: Any) -> None:
    """Say what was chosen and how it was calibrated; nothing for one network."""
    if selects(fitted):
        from probprop.facts import calibration_in_words, choice_in_words

        selected = choice_in_words(fitted).splitlines()
        for line in [f"selected: {selected[0]}", *(f"  {line}" for line in selected[1:])]:
            terminal.say(line)
        terminal.say(f"calibrated: {calibration_in_words(fitted)}")

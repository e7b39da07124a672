"""What a cross-validated estimator chose and how it was calibrated, in a line each."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from probprop.estimators.cv.calibration import Calibration, ClassCalibration
from probprop.estimators.cv.policy import Candidate
from probprop.estimators.cv.search import CVChoice


def choice_in_words(model: Any) -> str:
    """Say in one line what a cross-validated estimator chose.

    Parameters
    ----------
    model : PBPRegressorCV or PBPClassifierCV
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressorCV
    >>> x = np.linspace(-1.0, 1.0, 40)
    >>> model = PBPRegressorCV(budget="fast", random_state=0).fit(x[:, None], x)
    >>> choice_in_words(model)
    'features as they are, a layer of 50 units, memory of 10, 80 epochs; best of 2 settings'
    """
    choice: CVChoice = model.choice_
    n = len(choice.curves)
    scores = [max(curve.calibrated, default=-math.inf) for curve in choice.curves]
    word = "best" if scores[choice.best] == max(scores) else "chosen"  # it costs less
    of = f"{word} of {n:,} settings" if n > 1 else "the only setting"
    scale, power = "", choice.candidate.power
    if power is not None:
        scale = f"; predicts {power_in_words(power)} of the target, since errors grow with it"
    settings = candidate_in_full(choice.candidate)
    return f"{settings}, {epochs_in_words(choice.n_epochs)}; {of}{scale}"


def candidate_in_full(candidate: Candidate) -> str:
    """Say what a candidate is, in full, but for the power of the targets."""
    encoding = "features as they are"
    if candidate.n_bins is not None:
        encoding = f"{candidate.n_bins} ramps beside each feature"
    sizes = candidate.layers
    layers = "no hidden layer" if not sizes else f"a layer of {sizes[0]:,} units"
    if len(sizes) > 1:
        layers = f"layers of {', '.join(f'{n:,}' for n in sizes[:-1])} and {sizes[-1]:,} units"
    memory = candidate.memory
    bound = "no bound on the memory" if memory is None else f"memory of {memory:g}"
    return f"{encoding}, {layers}, {bound}"


def power_in_words(power: float) -> str:
    """Name a power of targets.

    Examples
    --------
    >>> [power_in_words(power) for power in (0.0, 0.5, 0.35)]
    ['the logarithm', 'the square root', 'the power 0.35']
    """
    return {0.0: "the logarithm", 0.5: "the square root"}.get(power, f"the power {power:.3g}")


def epochs_in_words(n: int) -> str:
    """Say how many epochs these are."""
    return f"{n:,} epoch{'' if n == 1 else 's'}"


def calibration_in_words(model: Any) -> str:
    """Say in one line how a cross-validated estimator was calibrated.

    Parameters
    ----------
    model : PBPRegressorCV or PBPClassifierCV
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressorCV
    >>> x = np.random.RandomState(0).standard_normal((15, 1))
    >>> model = PBPRegressorCV(budget="fast", random_state=0).fit(x, x[:, 0])
    >>> calibration_in_words(model)
    'error bars times 0.27; too few rows or seconds to learn where the noise is larger'
    """
    return _in_words(model.calibration_, model.choice_.candidate)


@singledispatch
def _in_words(calibration: Any, candidate: Candidate) -> str:
    raise TypeError(f"{type(calibration).__name__} has no words")


@_in_words.register
def _(calibration: Calibration, candidate: Candidate) -> str:
    noise = f"a noise network, which gains {gain_in_words(calibration)} per row"
    if calibration.noise is None:
        g = calibration.transformation
        of = "" if g is None else f" of {power_in_words(g.power)}"
        noise = f"the noise{of} is the same everywhere"
        if math.isnan(calibration.gain) and candidate.noise == "auto":
            noise = "too few rows or seconds to learn where the noise is larger"
    return f"error bars times {math.sqrt(calibration.factor):.2f}; {noise}"


@_in_words.register
def _(calibration: ClassCalibration, candidate: Candidate) -> str:
    losses = f"{calibration.raw_log_loss:.3f} to {calibration.log_loss:.3f}"
    return f"temperature {calibration.temperature:.2f}; log-loss on rows held out from {losses}"


def gain_in_words(calibration: Calibration) -> str:
    """Say what the noise network gains, with the standard error."""
    return f"{calibration.gain:+.3f} ± {calibration.gain_error:.3f}".replace("-", "−")

"""Numbers, cells and fitted models in words: the network, its selection and its calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
from scipy.special import gammaincinv

from probprop._version import __version__
from probprop.encoding.missing import N_NODES
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.calibration import Calibration, ClassCalibration
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.kind import classes_of, is_cross_validated, networks_of, transformation_of
from probprop.estimators.regressor import PBPRegressor
from probprop.table.names import listed, plural, target_names

HeldOut = bool | Literal["out of fold"] | None
"""Whether the rows of a report are a test set; None if that is not known. "out of fold": they are
the training rows ``oof_rows_``, each predicted by networks that were not trained on it."""

OUT_OF_FOLD: Literal["out of fold"] = "out of fold"

_MAX_NAMES = 40  # features named


def model_facts(
    model: PBPRegressor | PBPClassifier | PBPRegressorCV | PBPClassifierCV,
    feature_names: Sequence[str],
    target: str | Sequence[str],
) -> list[list[str]]:
    """Describe a fitted model, or the first network of an ensemble, by names and values.

    `target` names the target, or each of several.

    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> model = PBPRegressor(8, n_epochs=3, random_state=0).fit(x, x[:, 0] ** 2)
    >>> dict(model_facts(model, ["x"], "y"))["Network"]
    '1 feature, 8 hidden units, 1 output; 25 weights in float64'
    """
    networks, g = networks_of(model), transformation_of(model)
    network = networks[0]
    chosen, q = is_cross_validated(model), network.posterior_
    names, n_features = target_names(target), model.n_features_in_
    n_in, *hidden, n_out = q.layer_sizes
    facts = [["Targets" if names[1:] else "Target", listed(names, _MAX_NAMES, str)]]
    if (classes := classes_of(network)) is not None:
        shown = listed([str(name) for name in classes.tolist()], _MAX_NAMES, str)
        facts.append(["Labels" if network.multilabel_ else "Classes", f"{len(classes):,}: {shown}"])
    if chosen:
        k, n = len(cast(Any, model).groups_), len(networks)
        each = "one for each fold" + (f" of {k:,} stacked candidates" if k > 1 else "")
        facts.append(["Ensemble", f"{plural(n, 'network')}, {each}; below is the first"])
        choice, *stacked = choice_in_words(model).splitlines()
        facts.append(["Choice", choice])
        facts += [[f"Candidate {i}", words] for i, words in enumerate(stacked, 1)]
        facts.append(["Calibration", calibration_in_words(model)])
    encoded = "" if n_in == n_features else f" encoded as {n_in:,} numbers"
    units = " + ".join(f"{n:,}" for n in hidden) + " hidden units" if hidden else "no hidden layer"
    n_weights = sum(m.size for m in q.m_w)
    shape = f"{plural(n_features, 'feature')}{encoded}, {units}, {plural(n_out, 'output')}"
    cap = "" if network.evidence_cap is None else f", evidence cap of {network.evidence_cap:g}"
    done = f"{plural(network.n_samples_seen_, 'sample')}, {plural(network.n_iter_, 'epoch')}"
    facts += [
        ["Network", f"{shape}; {n_weights:,} weights in {q.dtype}"],
        ["Training", f"{done}{cap}"],
    ]
    if network.missing == "marginalize":
        facts.append(["Missing values", missing_in_words(chosen)])
    counts = {
        "n_undone": "weight updates undone",
        "n_held": "precisions kept positive between synchronization rounds",
        "n_guarded": "noise updates by quadrature",
        "n_skipped_points": "samples skipped",
    }
    sums = ((sum(getattr(e, k) for e in network.history_), what) for k, what in counts.items())
    if unusual := [f"{n:,} {what}" for n, what in sums if n]:
        facts.append(["Unusual in training", ", ".join(unusual)])
    if classes is None:
        scale = network.standardizer_.y_scale * np.exp(0.25 * q.tail)  # the root of exp(tail/2)
        if g is not None:  # dy = unit dz where y is the unit
            scale = scale * g.unit
        noises = zip(*map(np.atleast_1d, (q.alpha_noise, q.beta_noise, scale)), strict=True)
        noise = [_std_and_interval(*map(float, one)) for one in noises]
        units = names[0]
        if len(names) > 1:
            noise = [f"{one} of {name}" for one, name in zip(noise, names, strict=True)]
            units = "each target"
        where = "" if g is None else f", where that is {number(g.unit)}"
        words = f"standard deviation {'; '.join(noise)}, in units of {units}{where}"
        if q.noise_network is not None:
            words = f"heteroscedastic, around a level with {words}"
        facts.append([f"Noise{' before calibration' * chosen}", words])
        if q.tail.any():
            tails = ", ".join(number(float(tail)) for tail in q.tail)
            facts.append(["Tails of the noise", f"variance {tails} of its log variance"])
    power = "" if g is None else f"; of {power_in_words(g.power)} of {names[0]}"
    seed = (model if chosen else network).random_state
    return [
        *facts,
        [
            "Prior of the weights",
            f"standard deviation {_std_and_interval(q.alpha_prior, q.beta_prior, 1.0)}",
        ],
        ["Log evidence", f"{number(network.log_evidence_)} (sum over the first epoch{power})"],
        ["Seed", str(seed) if isinstance(seed, int) else "none"],
        ["Feature" if n_features == 1 else "Features", listed(feature_names, _MAX_NAMES, str)],
        ["Version", f"probprop {__version__}"],
    ]


def _std_and_interval(alpha: float, beta: float, scale: float) -> str:
    """Standard deviation with its 95 % interval, from the Gamma of a precision."""
    mean = math.sqrt(beta / (alpha - 1.0)) * scale
    high, low = np.sqrt(beta / gammaincinv(alpha, [0.025, 0.975])) * scale
    return f"{number(mean)} (95 % interval {number(low)} to {number(high)})"


def number(value: float, scale: float = math.inf) -> str:
    """Write a number with four significant digits, as a reader expects it.

    If `scale`, the standard deviation of the value, is smaller than the value, the number has four
    significant digits of it.

    >>> [number(v) for v in (53.4159, 1234567.8, -0.00123456, 1e-9, 0.0)]
    ['53.42', '1,234,568', '−0.001235', '1.000e−09', '0']
    >>> number(53.4159265, 0.025), number(1.7e9 + 0.25, 1.5), number(53.4, 1e22)
    ('53.41593', '1,700,000,000.250', '53.40')
    """
    if value == 0.0 or not math.isfinite(value):
        text = f"{value:.0f}"
    else:
        size = math.floor(math.log10(abs(value)))
        own = 3 if scale <= 0.0 else max(3, 3 + size - math.floor(math.log10(min(scale, 1e300))))
        digits = min(own, 15)  # after the first
        if 1e-4 <= abs(value) < (1e9 if digits == 3 else 1e15):
            text = f"{value:,.{max(0, digits - size)}f}"
        else:
            text = f"{value:.{digits}e}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Write a share between 0 and 1."""
    return f"{100.0 * share:.1f} %"


# ---- Model selection and calibration of a cross-validated estimator, in a line each


def missing_in_words(chosen: bool) -> str:
    """Describe how missing values are marginalized; `chosen` is whether folds choose the model."""
    if chosen:
        return f"marginalized over {N_NODES} completions, given the other values of the sample"
    return "marginalized as a Gaussian with the mean and variance of the column"


def choice_in_words(model: Any) -> str:
    """Describe what a fitted `PBPRegressorCV` or `PBPClassifierCV` selected.

    If candidates are stacked, each has a line of its own.

    >>> import numpy as np
    >>> from probprop import PBPRegressorCV
    >>> x = np.linspace(-1.0, 1.0, 40)
    >>> given = [{"hidden_layer_sizes": ()}, {"hidden_layer_sizes": 8}]
    >>> model = PBPRegressorCV(candidates=given, budget="fast", random_state=0)
    >>> choice_in_words(model.fit(x[:, None], x))
    'features as they are, no hidden layer, no evidence cap, 80 epochs; best of 2 candidates'
    """
    n, groups, power = len(model.trials_), model.groups_, model.groups_[0].candidate.power
    each = [f"{group.candidate.in_words}, {plural(group.n_epochs, 'epoch')}" for group in groups]
    scale = ""
    if power is not None:
        scale = f"; predicts {power_in_words(power)} of the target, because errors grow with it"
    if len(groups) > 1:
        weights = [f"weight {g.weight:.2f}: {text}" for text, g in zip(each, groups, strict=True)]
        return "\n".join([f"stacked from {n:,} candidates{scale}", *weights])
    return f"{each[0]}; {f'best of {n:,} candidates' if n > 1 else 'the only candidate'}{scale}"


def power_in_words(power: float) -> str:
    """Name a power of targets, such as "the logarithm"."""
    return f"the {power_name(power)}"


def power_name(power: float) -> str:
    """Name a power of targets: "logarithm", "square root" or "power 0.35"."""
    return {0.0: "logarithm", 0.5: "square root"}.get(power, f"power {power:.3g}")


def calibration_in_words(model: Any) -> str:
    """Describe in one line how a fitted `PBPRegressorCV` or `PBPClassifierCV` was calibrated."""
    each = [_calibration_in_words(own, model) for own in model.calibrations_]
    if len(each) == 1:
        return each[0]
    return "; ".join(f"target {k}: {words}" for k, words in enumerate(each, 1))


def _calibration_in_words(calibration: Calibration | ClassCalibration, model: Any) -> str:
    if isinstance(calibration, ClassCalibration):
        losses = f"{calibration.log_loss:.3f} ({calibration.raw_log_loss:.3f} before)"
        return f"temperature {calibration.temperature:.2f}; out-of-fold log-loss {losses}"
    g = calibration.transformation
    of = "" if g is None else f" of {power_in_words(g.power)}"
    noise = f"constant noise variance{of}"
    if calibration.noise is not None:
        gain = f"{calibration.gain:+.3f} ± {calibration.gain_error:.3f}".replace("-", "−")
        noise = f"heteroscedastic noise{of} ({gain} nats per sample)"
    elif math.isnan(calibration.gain) and model.groups_[0].candidate.noise == "auto":
        noise += " (too few samples to learn heteroscedastic noise)"
    shape = calibration.recalibration
    learned = "" if shape is None else f"; {shape.in_words}"
    return f"standard deviations scaled by {math.sqrt(calibration.factor):.2f}; {noise}{learned}"


# ---- Cells and names as a reader expects them


_LONGEST = 40  # letters of a text


def cut(text: str, most: int) -> str:
    """Shorten a text to a number of letters, the last of them an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def cell(value: Any) -> str:
    """Write a cell of a table.

    >>> import pandas as pd
    >>> [cell(v) for v in (True, 3.0, 0.123456789, 1234567.0, None, "Mitte")]
    ['true', '3', '0.123457', '1,234,567', '–', 'Mitte']
    >>> cell(pd.Timestamp("2024-05-31")), cell(pd.Timestamp("2024-05-31 12:30"))
    ('2024-05-31', '2024-05-31 12:30')
    """
    import pandas as pd  # which saving a model must not need

    if not isinstance(value, str) and pd.isna(value):
        return "–"
    if isinstance(value, pd.Timestamp):
        at_midnight = value == value.normalize()
        return f"{value:%Y-%m-%d}" if at_midnight else f"{value:%Y-%m-%d %H:%M}"
    if str(value) in ("True", "False"):
        return str(value).lower()
    if isinstance(value, str):
        return cut(value, _LONGEST)
    try:
        plain = float(value)
    except (TypeError, ValueError):
        return str(value)
    if not math.isfinite(plain):
        return str(value)
    large = 1e6 <= abs(plain) < 1e15
    return (f"{plain:,.0f}" if large else f"{plain:.6g}").replace("-", "−")

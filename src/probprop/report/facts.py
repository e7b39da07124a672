"""What a fitted model is and how it was made, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from scipy.special import gammaincinv
from sklearn.base import is_classifier

from probprop._version import __version__
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.missing import N_NODES
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.kind import (
    classes_of,
    first_network,
    is_cross_validated,
    members,
    transformation_of,
)
from probprop.estimators.regressor import PBPRegressor
from probprop.report.choice_words import calibration_in_words, choice_in_words, power_in_words
from probprop.table.names import target_names

_MAX_NAMES = 40  # features named


def model_facts(
    model: PBPRegressor | PBPClassifier | PBPEnsemble | PBPRegressorCV | PBPClassifierCV,
    feature_names: Sequence[str],
    target: str | Sequence[str],
) -> list[list[str]]:
    """Describe a fitted model, or the first network of an ensemble, by names and values.

    Parameters
    ----------
    model : PBPRegressor, PBPClassifier, PBPEnsemble, PBPRegressorCV or PBPClassifierCV
        Fitted.
    feature_names : sequence of str
    target : str or sequence of str
        Name of the target, or of each of several.

    Returns
    -------
    list of [str, str]

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> model = PBPRegressor(8, n_epochs=3, random_state=0).fit(x, x[:, 0] ** 2)
    >>> dict(model_facts(model, ["x"], "y"))["Network"]
    '1 feature, 8 hidden units, 1 output; 25 weights in float64'
    """
    network, g = first_network(model), transformation_of(model)
    q = network.posterior_
    n_in, *hidden, n_out = q.layer_sizes
    units = " + ".join(f"{n:,}" for n in hidden) + " hidden units" if hidden else "no hidden layer"
    n_weights = sum(m.size for m in q.m_w)
    n_features = model.n_features_in_
    plural = "" if n_features == 1 else "s"
    encoded = "" if n_in == n_features else f" encoded as {n_in:,} numbers"
    outputs = f"{n_out:,} output{'' if n_out == 1 else 's'}"
    prior = _std_and_interval(q.alpha_prior, q.beta_prior, 1.0)
    memory = network.memory
    bound = "" if memory is None else f", memory of {memory:g}"
    names = target_names(target)
    facts = [
        ["Target" if len(names) == 1 else "Targets", _some(names)],
        *_classes(network),
        *_members(model),
        *_cross_validation(model),
        [
            "Network",
            f"{n_features:,} feature{plural}{encoded}, {units}, {outputs}; {n_weights:,} weights "
            f"in {q.dtype}",
        ],
        ["Training", f"{network.n_samples_seen_:,} rows, {network.n_iter_:,} passes{bound}"],
    ]
    if network.missing == "marginalize":
        how = "marginalized: any value, with its column's mean and variance"
        if is_cross_validated(model):
            how = f"completed in {N_NODES} ways from the values that are present"
        facts.append(["Missing values", how])
    counts = {
        "weight updates undone": sum(e.n_undone for e in network.history_),
        "precisions held up between rounds": sum(e.n_held for e in network.history_),
        "noise updates by quadrature": sum(e.n_guarded for e in network.history_),
        "rows skipped": sum(e.n_skipped_points for e in network.history_),
    }
    if unusual := [f"{n:,} {what}" for what, n in counts.items() if n]:
        facts.append(["Unusual in training", ", ".join(unusual)])
    if not is_classifier(network):
        scale = network.standardizer_.y_scale * np.exp(0.25 * q.tail)  # the root of exp(tail/2)
        if g is not None:  # dy = unit dz where y is the unit
            scale = scale * g.unit
        of_targets = q.alpha_noise, q.beta_noise, scale
        each = zip(*map(np.atleast_1d, of_targets), strict=True)
        noise = [_std_and_interval(*map(float, one)) for one in each]
        units = names[0]
        if len(names) > 1:
            noise = [f"{one} of {name}" for one, name in zip(noise, names, strict=True)]
            units = "each target"
        where = "" if g is None else f", where that is {number(g.unit)}"
        of_noise = f"standard deviation {'; '.join(noise)}, in units of {units}{where}"
        if q.noise_network is not None:
            of_noise = f"depends on the features; around a level with {of_noise}"
        before = " before calibration" if is_cross_validated(model) else ""
        facts.append([f"Noise{before}", of_noise])
        if q.tail.any():
            tails = ", ".join(number(float(tail)) for tail in q.tail)
            facts.append(["Tails of the noise", f"variance {tails} of its log variance"])
    of_evidence = ["sum over the first pass"]
    if g is not None:
        of_evidence.append(f"of {power_in_words(g.power)} of {names[0]}")
    seed = (model if is_cross_validated(model) else network).random_state
    return [
        *facts,
        ["Prior of the weights", f"standard deviation {prior}"],
        ["Log evidence", f"{number(network.log_evidence_)} ({'; '.join(of_evidence)})"],
        ["Seed", str(seed) if isinstance(seed, int) else "none"],
        [f"Feature{plural}", _some(feature_names)],
        ["Version", f"probprop {__version__}"],
    ]


def _classes(network: PBPRegressor | PBPClassifier) -> list[list[str]]:
    classes = classes_of(network)
    if classes is None:
        return []
    names = [str(name) for name in classes.tolist()]
    multilabel = cast(PBPClassifier, network).multilabel_
    return [["Labels" if multilabel else "Classes", f"{len(names):,}: {_some(names)}"]]


def _members(model: Any) -> list[list[str]]:
    n = len(members(model))
    one_each = ""
    if is_cross_validated(model):
        k = model.n_partitions_
        one_each = ", one for each fold" + (f" of {k:,} partitions" if k > 1 else "")
    described = f"{n:,} network{'' if n == 1 else 's'}{one_each}; below is the first"
    return [["Ensemble", described]] if n else []


def _cross_validation(model: Any) -> list[list[str]]:
    if not is_cross_validated(model):
        return []
    return [["Choice", choice_in_words(model)], ["Calibration", calibration_in_words(model)]]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _std_and_interval(alpha: float, beta: float, scale: float) -> str:
    """Standard deviation with its 95 % interval, from the Gamma of a precision."""
    mean = math.sqrt(beta / (alpha - 1.0)) * scale
    high, low = np.sqrt(beta / gammaincinv(alpha, [0.025, 0.975])) * scale
    return f"{number(mean)} (95 % interval {number(low)} to {number(high)})"


def number(value: float, scale: float = math.inf) -> str:
    """Write a number with four significant digits, as a reader expects it.

    Parameters
    ----------
    value : float
    scale : float, default=inf
        Standard deviation of the value. If it is smaller than the value, the number has four
        significant digits of it.

    Examples
    --------
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

"""One target or several: their names, and the predictive distribution of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from probprop.predictive.gaussian import Predictive
from probprop.predictive.mixture import Mixture


def target_names(target: str | Sequence[str]) -> list[str]:
    """Return the names of the targets, where one may stand alone.

    Examples
    --------
    >>> target_names("price"), target_names(("heating", "cooling"))
    (['price'], ['heating', 'cooling'])
    """
    return [target] if isinstance(target, str) else list(target)


def in_words(names: Sequence[str]) -> str:
    """Return the names as a sentence has them.

    Examples
    --------
    >>> in_words(["a"]), in_words(["a", "b"]), in_words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def of_each_target(predictive: Predictive | Mixture) -> list[Predictive | Mixture]:
    """Return the distribution of each target, of shape (n,), from one of shape (n,) or (n, K).

    Examples
    --------
    >>> import numpy as np
    >>> std_model, std_noise = np.array([[3.0, 0.0]]), np.array([4.0, 1.0])
    >>> both = Predictive(np.array([[0.0, 10.0]]), std_model, std_noise, np.array([6.0, 6.0]))
    >>> [one.std for one in of_each_target(both)]
    [array([5.]), array([1.])]
    """
    if predictive.mean.ndim == 1:
        return [predictive]
    n_targets = predictive.mean.shape[1]
    if isinstance(predictive, Mixture):
        means, stds, noise = predictive.means, predictive.stds_model, predictive.stds_noise
        return [Mixture(means[..., k], stds[..., k], noise[:, k]) for k in range(n_targets)]
    std_noise, alpha = np.asarray(predictive.std_noise), np.asarray(predictive.alpha_noise)
    return [
        Predictive(
            predictive.mean[:, k],
            predictive.std_model[:, k],
            float(std_noise[k]),
            float(alpha[k]),
            predictive.student_t,
        )
        for k in range(n_targets)
    ]

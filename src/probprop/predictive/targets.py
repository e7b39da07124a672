"""The predictive distribution of each of several targets."""

from __future__ import annotations

import numpy as np

from probprop.predictive.gaussian import Predictive
from probprop.predictive.mixture import Mixture


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

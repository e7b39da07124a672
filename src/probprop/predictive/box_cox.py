"""The Box-Cox transformation of positive targets, and the power that suits some.

    z = g(y) = ((y/unit)^power - 1) / power,    log(y/unit) for power 0.

Powers lie between 0, the logarithm, and 1, which leaves targets as they are but for shift and
unit. Powers below 0 are left out: they map all targets below a finite z, and a Gaussian above it
would be a target at infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import boxcox, inv_boxcox
from scipy.stats import boxcox_llf

from probprop._types import Array, FloatArray
from probprop.predictive.checks import check_open_range

_POWER_ERROR = 1e-6
_NO_POWER = 1e-18  # products with smaller powers may lose digits, and it is the logarithm anyway


@dataclass(frozen=True)
class BoxCox:
    """A transformation of positive targets.

    Parameters
    ----------
    power : float
        Between 0, the logarithm, and 1.
    unit : float, default=1.0
        The target that becomes 0, in target units; above 0.

    Examples
    --------
    >>> from probprop import BoxCox
    >>> g = BoxCox(power=0.5, unit=100.0)
    >>> g.forward([100.0, 400.0]), g.inverse([0.0, 2.0]), g.inverse(-3.0)
    (array([0., 2.]), array([100., 400.]), np.float64(0.0))
    """

    power: float
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.power <= 1.0:
            raise ValueError(
                "The 'power' parameter of BoxCox must be a float in the range [0.0, 1.0]. "
                f"Got {self.power} instead."
            )
        check_open_range("unit", "BoxCox", self.unit, 0.0, np.inf)

    @property
    def lowest(self) -> float:
        """The z of a target of 0: -1/power, or minus infinity."""
        return -1.0 / self.power if self.power else -np.inf

    def forward(self, y: ArrayLike) -> FloatArray:
        """Return z = g(y) of targets, 0 or more, in target units."""
        z: FloatArray = boxcox(np.asarray(y, np.float64) / self.unit, self.power)
        return z

    def inverse(self, z: ArrayLike) -> FloatArray:
        """Return targets, in target units. What lies below `lowest` is a target of 0."""
        z = np.maximum(np.asarray(z, np.float64), self.lowest)
        y: FloatArray = inv_boxcox(z, self.power if self.power > _NO_POWER else 0.0)
        return self.unit * y

    def log_jacobian(self, y: ArrayLike) -> FloatArray:
        """Return log(dz/dy) of targets above 0, per target unit."""
        log_y: FloatArray = np.log(np.asarray(y, np.float64) / self.unit)
        log_slope: FloatArray = (self.power - 1.0) * log_y - np.log(self.unit)
        return log_slope


def fit_box_cox(y: ArrayLike) -> BoxCox:
    """Return the transformation under which targets are most likely to be from one Gaussian.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets above 0. Their geometric mean becomes the unit.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.RandomState(0).standard_normal(2000)
    >>> round(fit_box_cox(np.exp(y)).power, 1), round(fit_box_cox((y + 5.0) ** 2).power, 1)
    (0.0, 0.5)
    """
    y = check_positive(np.asarray(y, np.float64))
    log_y = np.log(y)
    unit = float(np.exp(log_y.mean()))
    if np.ptp(log_y) == 0.0:
        return BoxCox(1.0, unit)  # equal targets say nothing about the power
    found = minimize_scalar(
        lambda power: -boxcox_llf(power, y / unit),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": _POWER_ERROR},
    )
    # The search never looks at the ends themselves.
    power = min(0.0, 1.0, float(found.x), key=lambda p: -float(boxcox_llf(p, y / unit)))
    return BoxCox(power, unit)


def check_positive(y: Array) -> Array:
    """Return targets if all of them are above 0, or raise a ValueError."""
    bad = y[~(y > 0.0)]
    if bad.size:
        raise ValueError(
            "A Box-Cox transformation takes targets above 0. "
            f"Got {float(bad[0])}, and {bad.size} of {y.size} such targets. Leave the targets as "
            "they are, or shift them."
        )
    return y

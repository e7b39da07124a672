"""The Box-Cox transformation of positive targets.

    z = g(y) = ((y/unit)^power - 1) / power,    log(y/unit) for power 0.

Powers lie between 0, the logarithm, and 1, which leaves targets as they are but for shift and
unit. Powers below 0 are left out: they map all targets below a finite z, and a Gaussian above it
would be a target at infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import boxcox, inv_boxcox

from probprop._types import Array, FloatArray
from probprop.predictive.checks import check_open_range

NO_POWER = 1e-18
"""Below this power the transformation is the logarithm: products with it would lose digits."""


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
        """Return targets, in target units. What lies below `lowest` is a target of 0.

        Targets beyond the largest float are infinite.
        """
        z = np.maximum(np.asarray(z, np.float64), self.lowest)
        with np.errstate(over="ignore"):
            y: FloatArray = inv_boxcox(z, self.power if self.power > NO_POWER else 0.0)
            return self.unit * y

    def slope(self, z: ArrayLike) -> FloatArray:
        """Return dy/dz, in target units; 0 below `lowest`, where the target stays 0."""
        y = self.inverse(z)
        with np.errstate(over="ignore"):
            slope: FloatArray = self.unit * (y / self.unit) ** (1.0 - self.power)
        return np.where(y > 0.0, slope, 0.0)

    def log_jacobian(self, y: ArrayLike) -> FloatArray:
        """Return log(dz/dy) of targets above 0, per target unit."""
        log_y: FloatArray = np.log(np.asarray(y, np.float64) / self.unit)
        log_slope: FloatArray = (self.power - 1.0) * log_y - np.log(self.unit)
        return log_slope


def box_cox_of(y: Array, power: float) -> BoxCox:
    """Return the transformation with that power, the unit of which is the geometric mean.

    Parameters
    ----------
    y : ndarray
        Targets above 0.
    power : float

    Examples
    --------
    >>> import numpy as np
    >>> round(box_cox_of(np.array([1.0, 100.0]), power=0.5).unit, 9)
    10.0
    """
    return BoxCox(float(power), float(np.exp(np.log(check_positive(y)).mean())))


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

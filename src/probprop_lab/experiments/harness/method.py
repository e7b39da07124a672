"""A method: what makes an estimator for a job, of the package or of a user's own module.

The estimator has ``fit(X, y)`` and, to predict, either ``predict_distribution(X)`` or
scikit-learn's ``predict(X, return_std=True)``, with standard deviations that include the noise.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from probprop_lab.experiments.harness.job import Job

OWN_COST = 1000.0
"""The cost of a method of which nothing is known."""


@dataclass(frozen=True)
class Method:
    """A way to make an estimator for a job.

    Parameters
    ----------
    name : str
    make : callable
        From a `Job` to an estimator that is not fitted.
    cost : float
        Time of a fit, roughly, in units of PBP's; for the progress bar.
    packages : tuple of str, default=()
        What it imports that the package itself does not need.
    extra : str, default="baselines"
        The extra that brings them.
    max_rows : float, default=inf
        Training rows up to which a fit is feasible.
    """

    name: str
    make: Callable[[Job], Any]
    cost: float
    packages: tuple[str, ...] = ()
    extra: str = "baselines"
    max_rows: float = math.inf

    @property
    def missing(self) -> list[str]:
        """Those of the packages that are not installed."""
        return [package for package in self.packages if find_spec(package) is None]

    @property
    def installed(self) -> bool:
        """Whether the packages are there."""
        return not self.missing


def check_installed(method: Method) -> None:
    """Refuse a method whose packages are not installed, and name the extra that brings them."""
    if method.missing:
        raise ValueError(
            f"the method {method.name} needs {', '.join(method.missing)}: pip install "
            f"'probprop[{method.extra}]'"
        )


Methods = Mapping[str, Method]
"""Methods by name, in the order in which tables show them."""


def own_method(name: str) -> Method:
    """Return a method made from a user's ``module:factory``.

    Raises
    ------
    ValueError
        The module cannot be imported, or it has no such factory.
    """
    factory = _import_factory(name)
    return Method(name, lambda job: _call(factory, job.seed), OWN_COST)


def _import_factory(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"method {name}: {module_name} cannot be imported ({type(error).__name__}: {error}); "
            "it has to be a file of the current directory or an installed module"
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ValueError(
            f"method {name}: {module_name} has no function {attribute}; give module:factory, where "
            "factory() returns an estimator"
        )
    return factory  # type: ignore[no-any-return]


def _call(factory: Callable[..., Any], seed: int) -> Any:
    return factory(random_state=seed) if _takes(factory, "random_state") else factory()


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function can be called with a parameter of this name."""
    parameters = inspect.signature(function).parameters
    return parameter in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def check_estimator(method: Method, job: Job) -> None:
    """Refuse a method whose factory fails, or returns what cannot fit or has no error bars.

    Raises
    ------
    ValueError
    """
    name = method.name
    try:
        estimator = method.make(job)
    except Exception as error:
        raise ValueError(
            f"method {name}: calling it fails ({type(error).__name__}: {error})"
        ) from error
    if isinstance(estimator, type) or not callable(getattr(estimator, "fit", None)):
        raise ValueError(f"method {name} must return an estimator with fit, got {estimator!r}")
    if callable(getattr(estimator, "predict_distribution", None)):
        return
    predict = getattr(estimator, "predict", None)
    if not callable(predict) or not _takes(predict, "return_std"):
        raise ValueError(
            f"method {name}: {type(estimator).__name__} gives no standard deviations; it needs "
            "predict(X, return_std=True) or predict_distribution(X)"
        )

"""The systems the paper compares PBP with, behind one interface; extra ``baselines``.

All are scikit-learn regressors with ``fit``, ``predict(X, return_std=True)`` and
``predict_distribution(X)``. Their packages are imported when the first of them is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from probprop._version import INSTALL_LAB

if TYPE_CHECKING:
    from probprop_lab.baselines.backprop import BackpropRegressor
    from probprop_lab.baselines.ebp import EBPRegressor
    from probprop_lab.baselines.ep import EPRegressor
    from probprop_lab.baselines.hmc import HMCRegressor
    from probprop_lab.baselines.laplace import LaplaceRegressor
    from probprop_lab.baselines.tuning import TunedRegressor, tuned
    from probprop_lab.baselines.variational import VariationalRegressor

_MODULES = {
    "BackpropRegressor": "backprop",
    "EBPRegressor": "ebp",
    "EPRegressor": "ep",
    "HMCRegressor": "hmc",
    "LaplaceRegressor": "laplace",
    "TunedRegressor": "tuning",
    "VariationalRegressor": "variational",
    "tuned": "tuning",
}

__all__ = [
    "BackpropRegressor",
    "EBPRegressor",
    "EPRegressor",
    "HMCRegressor",
    "LaplaceRegressor",
    "TunedRegressor",
    "VariationalRegressor",
    "tuned",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} needs the package {error.name}: {INSTALL_LAB.format('[baselines]')}",
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return __all__

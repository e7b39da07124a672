"""Bayesian neural networks by probabilistic backpropagation.

>>> from probprop import PBPRegressor

Names and public modules are imported when they are first used (PEP 562), so that a command which
needs none of them does not wait for scikit-learn.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probprop import active, data, metrics
    from probprop import plot as plot
    from probprop import table as table
    from probprop._version import __version__
    from probprop.data.fitting import fit, predict
    from probprop.distributions.classes import ClassMixture
    from probprop.distributions.functions import SampledNetwork, Sensitivity
    from probprop.distributions.mixture import Mixture
    from probprop.distributions.power import BoxCox, TransformedMixture
    from probprop.distributions.recalibrated import Recalibrated
    from probprop.encoding.piecewise import PiecewiseLinearEncoder
    from probprop.estimators.classifier import PBPClassifier
    from probprop.estimators.cv.calibration import Calibration, ClassCalibration
    from probprop.estimators.cv.classifier import PBPClassifierCV
    from probprop.estimators.cv.policy import Candidate
    from probprop.estimators.cv.regressor import PBPRegressorCV, SampledFunction
    from probprop.estimators.cv.search import Trial
    from probprop.estimators.regressor import PBPRegressor
    from probprop.files import load
    from probprop.inference.posterior import Epoch, Posterior
    from probprop.inference.standardize import Standardizer
    from probprop.io import ModelFileError
    from probprop.report import report as report  # the module, which can be called
    from probprop.table.encoding import TableEncoder as TableEncoder

_HOME = {
    "BoxCox": "distributions.power",
    "Calibration": "estimators.cv.calibration",
    "Candidate": "estimators.cv.policy",
    "ClassCalibration": "estimators.cv.calibration",
    "ClassMixture": "distributions.classes",
    "Epoch": "inference.posterior",
    "Mixture": "distributions.mixture",
    "ModelFileError": "io",
    "PBPClassifier": "estimators.classifier",
    "PBPClassifierCV": "estimators.cv.classifier",
    "PBPRegressor": "estimators.regressor",
    "PBPRegressorCV": "estimators.cv.regressor",
    "PiecewiseLinearEncoder": "encoding.piecewise",
    "Posterior": "inference.posterior",
    "SampledFunction": "estimators.cv.regressor",
    "SampledNetwork": "distributions.functions",
    "Sensitivity": "distributions.functions",
    "Standardizer": "inference.standardize",
    "TableEncoder": "table",
    "TransformedMixture": "distributions.power",
    "Recalibrated": "distributions.recalibrated",
    "Trial": "estimators.cv.search",
    "__version__": "_version",
    "fit": "data.fitting",
    "load": "files",
    "predict": "data.fitting",
}
_MODULES = ("active", "data", "metrics", "plot", "report", "table")

__all__ = [
    "BoxCox",
    "Calibration",
    "Candidate",
    "ClassCalibration",
    "ClassMixture",
    "Epoch",
    "Mixture",
    "ModelFileError",
    "PBPClassifier",
    "PBPClassifierCV",
    "PBPRegressor",
    "PBPRegressorCV",
    "PiecewiseLinearEncoder",
    "Posterior",
    "Recalibrated",
    "SampledFunction",
    "SampledNetwork",
    "Sensitivity",
    "Standardizer",
    "TransformedMixture",
    "Trial",
    "__version__",
    "active",
    "data",
    "fit",
    "load",
    "metrics",
    "predict",
]  # not the modules that need an extra, so that `from probprop import *` works without it


def _has_kernel() -> bool:
    try:
        return _find_spec("probprop._kernel") is not None
    except ModuleNotFoundError:
        return False


if not _has_kernel():
    raise ImportError(
        "probprop is built without its compiled kernel: the module probprop._kernel is missing. "
        "Install a wheel with `pip install probprop`, or, in a source checkout, build it with "
        "`pip install .` (it needs a C++17 compiler)."
    )


def __getattr__(name: str) -> Any:
    """Import a public name or module on first use."""
    if name in _MODULES:
        return _import_module(f"probprop.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'probprop' has no attribute {name!r}")
    value = getattr(_import_module(f"probprop.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names that were not used yet, too."""
    return sorted({*globals(), *__all__, *_MODULES})

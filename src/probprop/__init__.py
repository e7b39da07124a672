"""Bayesian neural networks by probabilistic backpropagation.

>>> from probprop import PBPRegressor

Names and public modules are imported when they are first used (PEP 562), so that a command which
needs none of them does not wait for scikit-learn.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probprop import active as active
    from probprop import data as data
    from probprop import metrics as metrics
    from probprop import plot as plot
    from probprop import table as table
    from probprop._version import __version__ as __version__
    from probprop.data.fitting import fit as fit
    from probprop.data.fitting import predict as predict
    from probprop.distributions.classes import ClassMixture as ClassMixture
    from probprop.distributions.functions import SampledNetwork as SampledNetwork
    from probprop.distributions.functions import Sensitivity as Sensitivity
    from probprop.distributions.mixture import Mixture as Mixture
    from probprop.distributions.power import BoxCox as BoxCox
    from probprop.distributions.power import TransformedMixture as TransformedMixture
    from probprop.distributions.recalibrated import Recalibrated as Recalibrated
    from probprop.encoding.piecewise import PiecewiseLinearEncoder as PiecewiseLinearEncoder
    from probprop.estimators.classifier import PBPClassifier as PBPClassifier
    from probprop.estimators.cv.calibration import Calibration as Calibration
    from probprop.estimators.cv.calibration import ClassCalibration as ClassCalibration
    from probprop.estimators.cv.classifier import PBPClassifierCV as PBPClassifierCV
    from probprop.estimators.cv.policy import Candidate as Candidate
    from probprop.estimators.cv.regressor import PBPRegressorCV as PBPRegressorCV
    from probprop.estimators.cv.regressor import SampledFunction as SampledFunction
    from probprop.estimators.cv.search import Trial as Trial
    from probprop.estimators.regressor import PBPRegressor as PBPRegressor
    from probprop.files import load as load
    from probprop.inference.posterior import Epoch as Epoch
    from probprop.inference.posterior import Posterior as Posterior
    from probprop.inference.standardize import Standardizer as Standardizer
    from probprop.io import ModelFileError as ModelFileError
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

# Without what needs an extra, so that `from probprop import *` works without it.
__all__ = sorted({*_HOME, "active", "data", "metrics"} - {"TableEncoder"})


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

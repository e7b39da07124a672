"""Bayesian neural networks by probabilistic backpropagation.

>>> from probprop import PBPRegressor
"""

from importlib.metadata import version as _version

try:
    import probprop._kernel  # noqa: F401  (tried first, so that its absence is explained)
except ModuleNotFoundError as error:
    if error.name != "probprop._kernel":
        raise
    raise ImportError(
        "probprop is built without its compiled kernel: the module probprop._kernel is missing. "
        "Install a wheel with `pip install probprop`, or, in a source checkout, build it with "
        "`pip install .` (it needs a C++17 compiler)."
    ) from error

from probprop.class_predictive import ClassPredictive
from probprop.classifier import PBPClassifier
from probprop.ensemble import PBPEnsemble
from probprop.persistence import ModelFileError, load
from probprop.posterior import Epoch, Posterior
from probprop.predictive import Predictive
from probprop.regressor import PBPRegressor
from probprop.selection import EvidenceSelection, select
from probprop.sensitivity import Sensitivity

__version__ = _version("probprop")
__all__ = [
    "ClassPredictive",
    "Epoch",
    "EvidenceSelection",
    "ModelFileError",
    "PBPClassifier",
    "PBPEnsemble",
    "PBPRegressor",
    "Posterior",
    "Predictive",
    "Sensitivity",
    "__version__",
    "load",
    "select",
]

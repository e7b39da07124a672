"""The methods by name: PBP, what it is compared with, and a user's own.

An experiment that needs a method in another form hands over its own table, `with_variants`.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from probprop._version import INSTALL_LAB
from probprop.cli import methods as own
from probprop.estimators.regressor import PBPRegressor
from probprop_lab.experiments.harness.job import Job

PLAIN = "PBP, constant columns at 0"
"""PBP as `PBPRegressor` is, where the table's "PBP" is as the authors ran it: on naval only."""

BEST = "PBPRegressorCV"
"""Ours that is compared with the field; PBP itself is the paper's."""

WEAK_HMC = "HMC weak"
"""HMC with a prior of the noise that a few points can leave; "HMC" has the prior of PBP's model."""

OWN_COST = 1000.0
"""The cost of a method of which nothing is known."""

_TUNING_EVALUATIONS = 30  # of the paper's search, section 5.1


@dataclass(frozen=True)
class Method(own.Method):
    """A factory of estimators, and the packages that it needs in addition to probprop's."""

    packages: tuple[str, ...] = ()
    extra: str = "baselines"  # of probprop-lab, that installs them

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.packages if find_spec(package) is None]

    @property
    def installed(self) -> bool:
        """Whether all packages are installed."""
        return not self.missing

    @property
    def install(self) -> str:
        """How the packages are installed."""
        return INSTALL_LAB.format(f"[{self.extra}]")

    def check(self) -> None:
        """Refuse a method whose packages are missing."""
        if self.missing:
            raise ValueError(
                f"the method {self.name} needs {', '.join(self.missing)}: {self.install}"
            )


Methods = Mapping[str, Method]
"""Methods by name, in the order in which tables show them."""


def shared(methods: own.Methods) -> dict[str, Method]:
    """Return methods of probprop as methods of the laboratory."""
    return {name: Method(**vars(method)) for name, method in methods.items()}


# ---- The methods of the paper


def pbp(job: Job) -> PBPRegressor:
    """Return PBP as it is."""
    return PBPRegressor(
        job.hidden, n_epochs=job.n_epochs, evidence_cap=job.evidence_cap, random_state=job.seed
    )


def _vi(job: Job) -> Any:
    from probprop_lab.baselines import VariationalRegressor
    from probprop_lab.baselines.tuning import VARIATIONAL_SPACE, tuned

    estimator = VariationalRegressor(job.hidden, n_epochs=job.n_epochs)
    return tuned(
        estimator, VARIATIONAL_SPACE, _TUNING_EVALUATIONS, "log_likelihood", random_state=job.seed
    )


def _bp(job: Job) -> Any:
    from probprop_lab.baselines import BackpropRegressor
    from probprop_lab.baselines.tuning import BACKPROP_SPACE, tuned

    estimator = BackpropRegressor(job.hidden, n_epochs=job.n_epochs)
    return tuned(estimator, BACKPROP_SPACE, _TUNING_EVALUATIONS, random_state=job.seed)


def _hmc(job: Job) -> Any:
    from probprop_lab.baselines import HMCRegressor

    return HMCRegressor(job.hidden, random_state=job.seed)


def with_weak_noise(make: Callable[[Job], Any]) -> Callable[[Job], Any]:
    """Return a maker of the same HMC with the weak prior of the noise."""

    def made(job: Job) -> Any:
        from probprop_lab.baselines.hmc import WEAK_NOISE

        return make(job).set_params(**WEAK_NOISE)

    return made


def _ep(job: Job) -> Any:
    from probprop_lab.baselines import EPRegressor

    return EPRegressor(job.hidden, random_state=job.seed)


def _la(job: Job) -> Any:
    from probprop_lab.baselines import LaplaceRegressor

    return LaplaceRegressor(job.hidden, random_state=job.seed)


def _ebp(job: Job) -> Any:
    from probprop_lab.baselines import EBPRegressor

    return EBPRegressor(job.hidden, n_epochs=job.n_epochs, random_state=job.seed)


# ---- What a user would pick: ours, and others out of the box


def _fast_cv(job: Job) -> Any:
    from probprop.estimators.cv.regressor import PBPRegressorCV

    return PBPRegressorCV(budget="fast", random_state=job.seed)


def _others() -> Any:
    from probprop_lab.baselines import off_the_shelf  # takes long, and few jobs need it

    return off_the_shelf


def _trees() -> Any:
    from probprop_lab.baselines import boosting

    return boosting


def _deep_ensemble(job: Job) -> Any:
    from probprop_lab.baselines.deep_ensemble import DeepEnsemble

    return DeepEnsemble(job.hidden, n_epochs=job.n_epochs, random_state=job.seed)


_SHARED = shared(own.KNOWN["regression"])
KNOWN = {
    method.name: method
    for method in [
        Method("PBP", pbp, 1.0),
        Method(PLAIN, pbp, 1.0),
        Method("VI", _vi, 400.0, ("jax", "bayes_opt")),
        Method("BP", _bp, 100.0, ("jax", "bayes_opt")),
        Method("HMC", _hmc, 4000.0, ("jax", "numpyro")),
        Method(WEAK_HMC, with_weak_noise(_hmc), 4000.0, ("jax", "numpyro")),
        Method("EP", _ep, 200.0),
        Method("LA", _la, 10.0),
        Method("EBP", _ebp, 200.0),
        Method("PBPRegressorCV fast", _fast_cv, 20.0),
        _SHARED[BEST],
        _SHARED["BayesianRidge"],
        _SHARED["GP"],
        Method(
            "GP ARD",
            lambda job: _others().GaussianProcessARD(job.seed),
            300.0,
            max_rows=_SHARED["GP"].max_rows,
        ),
        Method("MLP ensemble", lambda job: _others().MLPBootstrap(random_state=job.seed), 130.0),
        Method("deep ensemble", _deep_ensemble, 3.0),
        _SHARED["HistGB"],
        Method("LightGBM", lambda job: _trees().light_gbm(job.seed), 10.0, ("lightgbm",), "field"),
        Method(
            "CatBoost",
            lambda job: _trees().CatBoostUncertainty(random_state=job.seed),
            10.0,
            ("catboost",),
            "field",
        ),
        Method(
            "CatBoost constant",
            lambda job: _trees().cat_boost(job.seed),
            50.0,
            ("catboost",),
            "field",
        ),
        Method(
            "NGBoost",
            lambda job: _trees().NaturalBoosting(random_state=job.seed),
            150.0,
            ("ngboost",),
            "field",
        ),
    ]
}
"""The methods by name, in the order of the tables: the paper's first."""

COMPARED = ["PBP", "VI", "BP", "HMC", WEAK_HMC, "EP", "LA", "EBP"]
"""PBP, and what the paper compares it with."""

OURS = ["PBP", "PBPRegressorCV fast", BEST]
"""PBP, and the choice by cross-validation with two budgets."""

FIELD = ["PBP", BEST, *(k for k in KNOWN if k not in (PLAIN, *OURS, *COMPARED))]
"""PBP, our best, and what a user would pick."""


def with_variants(*variants: Method) -> Methods:
    """Return the methods of an experiment that has some of them in another form.

    Parameters
    ----------
    *variants : Method
        Each takes the place of the method of its name.

    Examples
    --------
    >>> found = with_variants(Method("EBP", lambda job: "another", 1.0))
    >>> found["EBP"].make(Job("toy", "toy_cubic", 0)), list(found) == list(KNOWN)
    ('another', True)
    """
    return ChainMap({variant.name: variant for variant in variants}, KNOWN)


def fitted(name: str) -> str:
    """Return what a method fits, without the way in which it collects its data.

    Examples
    --------
    >>> fitted("PBP-A"), fitted("PBP-R"), fitted("PBP")
    ('PBP', 'PBP', 'PBP')
    """
    return name.removesuffix("-A").removesuffix("-R")


def place(name: str) -> int:
    """Return the position of a method in a table: in the order of `KNOWN`, a user's own last."""
    return list(KNOWN).index(fitted(name)) if fitted(name) in KNOWN else len(KNOWN)


def cost(name: str) -> float:
    """Return roughly how many times the seconds of PBP a fit takes."""
    return KNOWN[fitted(name)].cost if fitted(name) in KNOWN else OWN_COST


# ---- Found by name


def find(name: str, known: Methods = KNOWN) -> Method:
    """Return a method by its name, or one made from a user's ``module:factory``.

    The module is imported from the current directory or from where Python looks. The factory
    is called with ``random_state=seed`` if it takes that, else without arguments; a class
    will do too.

    Parameters
    ----------
    name : str
    known : mapping of str to Method, default=KNOWN
        The methods of the experiment.

    Raises
    ------
    ValueError
        There is no such method, its packages are not installed, the module cannot be
        imported, or it has no such factory.

    Examples
    --------
    >>> job = Job("table1", "yacht", split=0, seed=3, hidden=(7,))
    >>> find("EBP").make(job)
    EBPRegressor(hidden_layer_sizes=(7,), random_state=3)
    >>> find("sklearn.linear_model:ARDRegression").make(job)
    ARDRegression()
    """
    if name in known:
        known[name].check()
        return known[name]
    check_name(name)
    factory = _import_factory(name)
    seeded = _takes(factory, "random_state")
    return Method(
        name, lambda job: factory(random_state=job.seed) if seeded else factory(), OWN_COST
    )


def check_name(name: str) -> None:
    """Refuse what is neither a known method nor ``module:factory``; nothing is imported."""
    if name not in KNOWN and ":" not in name:
        known = ", ".join(k for k in KNOWN if k != PLAIN)
        raise ValueError(f"unknown method {name}: choose among {known}, or give module:factory")


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


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function can be called with a parameter of this name."""
    parameters = inspect.signature(function).parameters
    return parameter in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _check_estimator(method: Method, job: Job) -> None:
    """Raise ValueError if a factory fails, or its estimator has no fit or no distribution."""
    name = method.name
    try:
        estimator = method.make(job)
    except Exception as error:
        raise ValueError(
            f"method {name}: calling it fails ({type(error).__name__}: {error})"
        ) from error
    if isinstance(estimator, type) or not callable(getattr(estimator, "fit", None)):
        raise ValueError(f"method {name} must return an estimator with fit, got {estimator!r}")
    predict = getattr(estimator, "predict", None)
    if not callable(getattr(estimator, "predict_distribution", None)) and not (
        callable(predict) and _takes(predict, "return_std")
    ):
        raise ValueError(
            f"method {name}: {type(estimator).__name__} gives no standard deviations; it needs "
            "predict(X, return_std=True) or predict_distribution(X)"
        )


def check(jobs: Iterable[Job], known: Methods = KNOWN) -> None:
    """Refuse methods that cannot be run, before any job is run.

    Parameters
    ----------
    jobs : iterable of Job
    known : mapping of str to Method, default=KNOWN
        The methods of the experiment.

    Raises
    ------
    ValueError
        What `find` raises; or a user's factory fails or returns something that cannot fit or
        gives no standard deviations.
    """
    for name, job in {fitted(job.method): job for job in jobs}.items():
        method = find(name, known)
        if name not in KNOWN:  # these are known to be estimators, and slow to import
            _check_estimator(method, job)

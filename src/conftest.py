"""Where the extra ``baselines`` is missing, what imports its packages is not collected."""

from importlib.util import find_spec

_NEEDS = {
    "jax": ["backprop", "hmc", "hmc_sampler", "jax_setup", "network", "variational"],
    "numpyro": ["hmc", "hmc_sampler"],
    "bayes_opt": ["tuning"],
}
_MISSING = [package for package in _NEEDS if find_spec(package) is None]

collect_ignore = [
    f"probprop/baselines/{module}.py" for package in _MISSING for module in _NEEDS[package]
]


def pytest_report_header() -> str:
    """Say what is left out, so that nothing is in silence."""
    if not _MISSING:
        return "baselines: all packages installed"
    return f"baselines: {', '.join(_MISSING)} missing, doctests of what needs them left out"

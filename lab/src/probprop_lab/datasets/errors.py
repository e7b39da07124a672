"""What the loaders raise."""

from __future__ import annotations

from probprop._version import INSTALL_LAB


class DataError(ValueError):
    """A benchmark file is missing, wrong or out of reach; the message says what to do."""


def missing_extra(package: str) -> ImportError:
    """Return the error for a package of the extra ``data`` that is not installed.

    Examples
    --------
    >>> print(missing_extra("pooch"))
    The data sets need the package pooch: pip install './lab[data]' in a checkout of the probprop repository
    """  # noqa: E501
    install = INSTALL_LAB.format("[data]")
    return ImportError(f"The data sets need the package {package}: {install}", name=package)

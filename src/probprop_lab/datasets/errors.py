"""What the loaders raise."""

from __future__ import annotations


class DataError(ValueError):
    """A benchmark file is missing, wrong or out of reach; the message says what to do."""


def missing_extra(package: str) -> ImportError:
    """Return the error for a package of the extra ``data`` that is not installed.

    Examples
    --------
    >>> missing_extra("pooch")
    ImportError("The data sets need the package 'pooch': pip install 'probprop[data]'")
    """
    return ImportError(
        f"The data sets need the package {package!r}: pip install 'probprop[data]'", name=package
    )

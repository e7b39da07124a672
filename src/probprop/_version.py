"""The version of the installed distribution, and how to install the laboratory."""

from importlib.metadata import version

__version__ = version("probprop")

INSTALL_LAB = "pip install './lab{}' in a checkout of the probprop repository"
"""The braces stand for an extra, such as ``[field]``, or for nothing."""

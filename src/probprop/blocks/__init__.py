"""Fits on rows that come block by block and may be larger than memory, on one machine.

`fit` takes blocks of arrays or files, and returns an ordinary estimator.
"""

from probprop.blocks.fitting import fit

__all__ = ["fit"]

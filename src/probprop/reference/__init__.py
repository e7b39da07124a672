"""The algorithm in NumPy, equation by equation: made to be read, not to be fast.

Read `moments` (one rectified unit), `adf` (the likelihood), `gamma` (the precisions),
then `prior` (the prior factors). The native kernel computes the same, and is tested
against this.
"""

from probprop.reference.adf import adf_pass, predict_moments
from probprop.reference.prior import refine_prior

__all__ = ["adf_pass", "predict_moments", "refine_prior"]

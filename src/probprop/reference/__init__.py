"""The algorithm in NumPy, equation by equation: made to be read, not to be fast.

Read `relu` (one rectified unit), `adf` (a pass over the points), `likelihoods` (log Z of a point),
`gamma` (the precisions), `prior` (the prior factors), then `sampled` (networks drawn from q). The
native kernel computes the same, and is tested against this.
"""

from probprop.reference.adf import adf_pass, predict_gradient, predict_moments
from probprop.reference.likelihoods import class_log_probabilities, class_log_probability
from probprop.reference.prior import refine_prior

__all__ = [
    "adf_pass",
    "class_log_probabilities",
    "class_log_probability",
    "predict_gradient",
    "predict_moments",
    "refine_prior",
]

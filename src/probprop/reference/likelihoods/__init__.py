"""The likelihoods: log Z of one point, and its derivatives by the moments of the outputs.

The K outputs are independent Gaussians with means m and variances v, (K,) each. A target is a
value per output (`gaussian`, `heavy`), +1 or -1 per output (`probit`), the index of the output
that is the largest once each has unit noise (`multinomial`), or a residual per output, whose noise
has the output as the logarithm of its variance (`scale`). One file each, as in ``cpp/likelihoods``.
"""

from probprop.reference.likelihoods.evidence import Evidence, PointLikelihood
from probprop.reference.likelihoods.gaussian import GAUSSIAN
from probprop.reference.likelihoods.heavy import HEAVY
from probprop.reference.likelihoods.multinomial import MULTINOMIAL
from probprop.reference.likelihoods.probit import PROBIT
from probprop.reference.likelihoods.scale import SCALE

__all__ = ["GAUSSIAN", "HEAVY", "MULTINOMIAL", "PROBIT", "SCALE", "Evidence", "PointLikelihood"]

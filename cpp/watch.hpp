// The residuals on which the network of the noise is trained while the other one is updated.
// The readable twin is `watched` in src/probprop/reference/adf.py.
#pragma once

#include "kernel.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// Of a point, before its update: residuals, variances of the outputs, levels of the noise, all in
// the units in which its noise has the weight 1 (see weighting.hpp), which h does not feel; the
// targets of the likelihood `scale`. NaN if the point is left out. `seen` is (3, outputs).
static void record(const Outputs& out, const double* y, const double* alpha, const double* beta,
                   bool used, double* seen) {
    for (int k = 0; k < out.n; ++k) {
        seen[k] = used ? y[k] - out.m[k] : __builtin_nan("");
        seen[out.n + k] = out.v[k];
        seen[2 * out.n + k] = beta[k] / (alpha[k] - 1.0);
    }
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

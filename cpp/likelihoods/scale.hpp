// A residual per output, which is the logarithm of its noise variance relative to a level.
// The readable twin is src/probprop/reference/likelihoods.py.
#pragma once

#include "../kernel.hpp"
#include "../points.hpp"
#include "../scale_mixture.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The sum of log Z_k, with residuals, variances of their means and levels (n,) each after another.
PROBPROP_INLINE double log_Z_scale(const Outputs& out, const double* y) {
    const double *d = y, *v = y + out.n, *level = y + 2 * out.n;
    double log_Z = 0.0;
    bool finite = true;
    for (int k = 0; k < out.n; ++k) {
        const ScaleMixture z =
            scale_mixture(d[k], v[k], log(level[k]) + out.m[k], out.v[k] + out.tail[k]);
        log_Z += z.log_Z;
        out.d_m[k] = z.d_mu;
        out.d_v[k] = out.d_tail[k] = z.d_var;
        finite &= __builtin_isfinite(z.d_var);
    }
    return PROBPROP_LIKELY(finite) ? log_Z : __builtin_nan("");
}

namespace {

struct Scale {
    static constexpr const char* name = "scale";
    static constexpr bool weights_divide_noise = false;
    static int n_targets(int n_outputs) { return 3 * n_outputs; }
    static int n_noise(int) { return 1; }
    static size_t n_scratch(int) { return 0; }

    static const char* objection(const Matrix& y, int n_outputs) {
        if (y.n_columns != 3 * n_outputs)
            return "y does not have three columns per output: residual, variance and level";
        for (int64_t i = 0; i < y.n_rows; ++i)
            for (int k = 0; k < n_outputs; ++k)
                if (!(entry(y, i, n_outputs + k) >= 0.0 && entry(y, i, 2 * n_outputs + k) > 0.0))
                    return "the variance of a residual is negative, or its level not positive";
        return nullptr;
    }

    PROBPROP_INLINE double evidence(const Outputs& out, const double* y, const double*,
                                    const double*, double*) {
        return log_Z_scale(out, y);
    }

    PROBPROP_INLINE int64_t learn_noise(const Outputs&, const double*, double*, double*) {
        return 0;  // the level is given
    }
};

}  // namespace
}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// A value per output, each with Gaussian noise whose precision is learned: [PBP15] Eq. (1).
// The readable twin is src/probprop/reference/likelihoods.py.
#pragma once

#include <math.h>

#include "../gamma.hpp"
#include "../kernel.hpp"
#include "../simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The sum of log N(y_k | m_k, v_k + noise_variance_k), [PBP15] Eq. (12).
PROBPROP_INLINE double log_Z_gaussian(const Outputs& out, const double* y,
                                      const double* noise_variance) {
    double log_Z = 0.0;
    for (int k = 0; k < out.n; ++k) {
        const double d = y[k] - out.m[k], s = out.v[k] + noise_variance[k];
        const double inv_s = 1.0 / s;
        out.d_m[k] = d * inv_s;
        out.d_v[k] = 0.5 * (out.d_m[k] * out.d_m[k] - inv_s);
        log_Z += -0.5 * (log(6.283185307179586 * s) + d * out.d_m[k]);
    }
    return log_Z;
}

// The noise Gamma (9)(10), by quadrature where the closed form is not sound; 1 if by quadrature.
PROBPROP_INLINE int64_t update_noise(double& alpha, double& beta, double d2, double v) {
    const GammaShapeRate delta = gamma_increments(alpha, beta, d2, v);
    GammaShapeRate updated = {alpha + delta.alpha, beta + delta.beta};
    const bool closed_form = PROBPROP_LIKELY(is_sound(alpha, beta, d2, updated));
    if (!closed_form) updated = gamma_moments_by_quadrature(alpha, beta, d2, v);
    alpha = updated.alpha;
    beta = updated.beta;
    return closed_form ? 0 : 1;
}

namespace {

struct Gaussian {
    static constexpr const char* name = "gaussian";
    static int n_targets(int n_outputs) { return n_outputs; }
    static int n_noise(int n_outputs) { return n_outputs; }
    static constexpr bool weights_divide_noise = true;
    static size_t n_scratch(int n_outputs) { return static_cast<size_t>(n_outputs); }

    static const char* objection(const Matrix& y, int n_outputs) {
        return y.n_columns == n_outputs ? nullptr : "y does not have a column per output";
    }

    PROBPROP_INLINE double evidence(const Outputs& out, const double* y, const double* alpha,
                                    const double* beta, double* noise_variance) {
        bool finite = true;
        for (int k = 0; k < out.n; ++k) {
            const double d = y[k] - out.m[k];
            const double precision = alpha[k] / beta[k];  // the quadrature's unit is the noise
            finite &=
                __builtin_isfinite(d * d * precision) && __builtin_isfinite(out.v[k] * precision);
            noise_variance[k] = beta[k] / (alpha[k] - 1.0);
        }
        if (!PROBPROP_LIKELY(finite)) return __builtin_nan("");
        return log_Z_gaussian(out, y, noise_variance);
    }

    PROBPROP_INLINE int64_t learn_noise(const Outputs& out, const double* y, double* alpha,
                                        double* beta) {
        int64_t n_guarded = 0;
        for (int k = 0; k < out.n; ++k) {
            const double d = y[k] - out.m[k];
            n_guarded += update_noise(alpha[k], beta[k], d * d, out.v[k]);
        }
        return n_guarded;
    }
};

}  // namespace
}  // namespace PROBPROP_LEVEL
}  // namespace probprop

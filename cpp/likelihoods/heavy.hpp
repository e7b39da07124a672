// A value per output, with heavy-tailed noise: the logarithm of its variance is Gaussian
// around the logarithm of the level beta/(alpha - 1), with the tail as its variance.
// The readable twin is src/probprop/reference/likelihoods.py.
#pragma once

#include <math.h>

#include "../gamma.hpp"
#include "../kernel.hpp"
#include "../scale_mixture.hpp"
#include "../simd.hpp"
#include "gaussian.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

namespace {

// Below this shape log Z is integrated at all three levels: its expansion in log(level) would
// not do.
constexpr double expand_above = 40.0;

// What (9)(10) need of log Z: log Z1 - log Z and log Z2 - 2 log Z1 + log Z.
struct LevelDifferences {
    double first, second;
};

// By integrals: Z, Z1 and Z2 have the noise levels beta/(alpha - 1), beta/alpha, beta/(alpha + 1).
static __attribute__((noinline)) LevelDifferences differences_by_integrals(double alpha,
                                                                           double beta, double d,
                                                                           double v, double tail) {
    double log_Z[3];
    for (int j = 0; j < 3; ++j)
        log_Z[j] = scale_mixture(d, v, ::log(beta / (alpha - 1.0 + j)), tail).log_Z;
    return {log_Z[1] - log_Z[0], (log_Z[2] - log_Z[1]) - (log_Z[1] - log_Z[0])};
}

// By the derivatives of log Z by log(level), to the second order.
PROBPROP_INLINE LevelDifferences differences_by_expansion(double alpha, double d_level,
                                                          double d_tail) {
    const double t1 = -log1p_of_small(1.0 / (alpha - 1.0));
    const double t2 = -log1p_of_small(2.0 / (alpha - 1.0));
    const double half_curvature = d_tail - 0.5 * d_level * d_level;
    return {d_level * t1 + half_curvature * t1 * t1,
            d_level * log1p_of_small(1.0 / ((alpha - 1.0) * (alpha + 1.0))) +
                half_curvature * (t2 * t2 - 2.0 * t1 * t1)};
}

// The noise Gamma where the tail is not 0; 1 if by quadrature.
PROBPROP_INLINE int64_t update_heavy_noise(double& alpha, double& beta, double d, double v,
                                           double tail, double d_level, double d_tail) {
    const LevelDifferences log_Z = alpha <= expand_above
                                       ? differences_by_integrals(alpha, beta, d, v, tail)
                                       : differences_by_expansion(alpha, d_level, d_tail);
    const GammaShapeRate delta = increments_of(alpha, beta, log_Z.first, log_Z.second);
    GammaShapeRate updated = {alpha + delta.alpha, beta + delta.beta};
    // tail d_level is how far the point moves the mean of its log noise variance: in units of
    // that noise it is a point with Gaussian noise.
    const double unit = ::exp(-tail * d_level), d2 = d * d * unit;
    const bool expanded = PROBPROP_LIKELY(is_sound(alpha, beta, d2, updated));
    if (!expanded) updated = gamma_moments_by_quadrature(alpha, beta, d2, v * unit);
    alpha = updated.alpha;
    beta = updated.beta;
    return expanded ? 0 : 1;
}

struct Heavy {
    static constexpr const char* name = "heavy";
    static int n_targets(int n_outputs) { return n_outputs; }
    static int n_noise(int n_outputs) { return n_outputs; }
    static constexpr bool weights_divide_noise = true;
    static size_t n_scratch(int) { return 0; }

    static const char* objection(const Matrix& y, int n_outputs) {
        return Gaussian::objection(y, n_outputs);
    }

    static double evidence(const Outputs& out, const double* y, const double* alpha,
                           const double* beta, double*) {
        double log_Z = 0.0;
        bool finite = true;
        for (int k = 0; k < out.n; ++k) {
            const double d = y[k] - out.m[k], level = beta[k] / (alpha[k] - 1.0);
            const double precision = alpha[k] / beta[k];  // the quadrature's unit is the noise
            if (!__builtin_isfinite(d * d * precision) || !__builtin_isfinite(out.v[k] * precision))
                return __builtin_nan("");
            const ScaleMixture point = scale_mixture(d, out.v[k], ::log(level), out.tail[k]);
            out.d_m[k] = point.d_m;
            out.d_v[k] = point.d_v;
            out.d_level[k] = point.d_mu;
            out.d_tail[k] = point.d_var;
            finite &= __builtin_isfinite(point.d_v) && __builtin_isfinite(point.d_var);
            log_Z += point.log_Z;
        }
        return finite ? log_Z : __builtin_nan("");
    }

    static int64_t learn_noise(const Outputs& out, const double* y, double* alpha, double* beta) {
        int64_t n_guarded = 0;
        for (int k = 0; k < out.n; ++k) {
            const double d = y[k] - out.m[k], v = out.v[k];
            n_guarded += out.tail[k] > 0.0
                             ? update_heavy_noise(alpha[k], beta[k], d, v, out.tail[k],
                                                  out.d_level[k], out.d_tail[k])
                             : update_noise(alpha[k], beta[k], d * d, v);
        }
        return n_guarded;
    }
};

}  // namespace
}  // namespace PROBPROP_LEVEL
}  // namespace probprop

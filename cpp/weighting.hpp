// Sample weights, known errors of the targets, and a power of the
// likelihood. The readable twin is src/probprop/reference/weighting.py.
#pragma once

#include <math.h>

#include "kernel.hpp"
#include "points.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

template <typename T>
static bool is_weighted(const AdfArgs<T>& args) {
    return args.weights != nullptr || args.y_var != nullptr || args.power != 1.0;
}

// Doubles that the evidence to a power works in.
template <typename L>
static size_t power_scratch(int n_outputs) {
    return L::weights_divide_noise ? 0 : 3 * static_cast<size_t>(n_outputs);
}

PROBPROP_INLINE double curvature(const Outputs& out, int k) {
    return 2.0 * out.d_v[k] - out.d_m[k] * out.d_m[k];
}

// How much of the power can be taken at once: 1, or more where log Z is flat.
PROBPROP_INLINE double share_of_power(const Outputs& out, double left) {
    constexpr double far = 0.5;
    double bend = 0.0;
    for (int k = 0; k < out.n; ++k) {
        const double b = out.v[k] * __builtin_fabs(curvature(out, k));
        if (b > bend) bend = b;
    }
    if (left <= 1.0 || bend * left <= far) return left;
    return far / bend > 1.0 ? far / bend : 1.0;
}

// The evidence of a point to the power p. `scratch` has room for p = 1 and, after it, for
// `power_scratch`; m and v of `out` are moved share by share and put back.
template <typename L>
static double evidence_to_power(double p, double* m, double* v, const Outputs& out, const double* y,
                                const double* alpha, const double* beta, double* scratch) {
    constexpr int most_shares = 1000;
    const int n = out.n;
    const double log_Z = L::evidence(out, y, alpha, beta, scratch);
    double share = share_of_power(out, p), left = p - share;
    if (share == p || !__builtin_isfinite(log_Z)) {
        for (int k = 0; k < n; ++k) {
            out.d_v[k] = p * out.d_v[k] + 0.5 * (p * p - p) * (out.d_m[k] * out.d_m[k]);
            out.d_m[k] *= p;
        }
        return p * log_Z;
    }
    double *m_first = scratch + L::n_scratch(n), *v_first = m_first + n;
    Outputs share_out = out;  // the tail learns from the whole point, before any power
    share_out.d_tail = v_first + n;
    for (int k = 0; k < n; ++k) {
        m_first[k] = m[k];
        v_first[k] = v[k];
    }
    for (int n_left = most_shares - 1; n_left >= 0; --n_left) {
        for (int k = 0; k < n; ++k) {
            m[k] += v[k] * (share * out.d_m[k]);
            v[k] += v[k] * v[k] * (share * curvature(out, k));
        }
        if (left == 0.0) break;
        L::evidence(share_out, y, alpha, beta, scratch);
        share = n_left > 1 ? share_of_power(out, left) : left;
        left -= share;
    }
    for (int k = 0; k < n; ++k) {
        const double slope = (m[k] - m_first[k]) / v_first[k];
        const double bend = (v[k] - v_first[k]) / (v_first[k] * v_first[k]);
        out.d_m[k] = slope;
        out.d_v[k] = 0.5 * (bend + slope * slope);
        m[k] = m_first[k];
        v[k] = v_first[k];
    }
    return p * log_Z;
}

// log Z of point i and its derivatives by the moments m and v of the outputs, which `out` has.
// Where weights divide the noise, m, v and y are left in the units of the noise of weight 1, as
// `learn_noise` needs them. Apart from the pass, which most of the time has no weights.
template <typename L, typename T>
static __attribute__((noinline)) double weighted_evidence(const AdfArgs<T>& args, int64_t i,
                                                          double* m, double* v, const Outputs& out,
                                                          double* y, const double* alpha,
                                                          const double* beta, double* scratch) {
    const int n = out.n;
    const double w = args.weights == nullptr ? 1.0 : args.weights[i];
    if (args.y_var != nullptr)
        for (int k = 0; k < n; ++k) v[k] += args.y_var[i * n + k];
    if constexpr (L::weights_divide_noise) {
        const double root = __builtin_sqrt(w);
        for (int k = 0; k < n; ++k) {
            m[k] *= root;
            v[k] *= w;
        }
        for (int k = 0; k < L::n_targets(n); ++k) y[k] *= root;
        const double log_Z = L::evidence(out, y, alpha, beta, scratch);
        for (int k = 0; k < n; ++k) {
            out.d_m[k] *= root;
            out.d_v[k] *= w;
        }
        return log_Z + 0.5 * n * log(w);
    } else {
        return evidence_to_power<L>(args.power * w, m, v, out, y, alpha, beta, scratch);
    }
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

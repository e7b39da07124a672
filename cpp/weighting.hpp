// Points that count otherwise than once: weights, known errors of the targets, a power of the
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
        const double p = args.power * w, log_Z = L::evidence(out, y, alpha, beta, scratch);
        for (int k = 0; k < n; ++k) {
            out.d_v[k] = p * out.d_v[k] + 0.5 * (p * p - p) * (out.d_m[k] * out.d_m[k]);
            out.d_m[k] *= p;
        }
        return p * log_Z;
    }
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// A label of +1 or -1 per output: the sign of the output once it has unit noise.
// The readable twin is src/probprop/reference/likelihoods.py.
#pragma once

#include <math.h>

#include "../kernel.hpp"
#include "../normal.hpp"
#include "../points.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The sum of log Phi(y_k m_k/sqrt(1 + v_k)).
PROBPROP_INLINE double log_Z_probit(const Outputs& out, const double* y) {
    constexpr int lanes = Simd<double>::lanes;
    double log_Z = 0.0;
    for (int first = 0; first < out.n; first += lanes) {
        const int here = out.n - first < lanes ? out.n - first : lanes;
        VecF64 z = {}, inv_s = {};
        for (int i = 0; i < here; ++i) {
            inv_s[i] = 1.0 / __builtin_sqrt(1.0 + out.v[first + i]);
            z[i] = y[first + i] * out.m[first + i] * inv_s[i];
        }
        const NormalParts parts = normal_parts(z);
        const VecF64 rate = parts.ratio * inv_s, d_v_all = -0.5 * z * rate * inv_s;
        const VecF64 exponent = lower_exponent(z);
        for (int i = 0; i < here; ++i) {
            log_Z += log(parts.mantissa[i]) + exponent[i];
            out.d_m[first + i] = y[first + i] * rate[i];
            out.d_v[first + i] = d_v_all[i];
        }
    }
    return log_Z;
}

namespace {

struct Probit {
    static constexpr const char* name = "probit";
    static int n_targets(int n_outputs) { return n_outputs; }
    static int n_noise(int) { return 1; }
    static constexpr bool weights_divide_noise = false;
    static size_t n_scratch(int) { return 0; }

    static const char* objection(const Matrix& y, int n_outputs) {
        if (y.n_columns != n_outputs) return "y does not have a column per output";
        for (int64_t i = 0; i < y.n_rows; ++i)
            for (int k = 0; k < y.n_columns; ++k)
                if (const double label = entry(y, i, k); !(label == 1.0 || label == -1.0))
                    return "the targets of a probit are 1 or -1";
        return nullptr;
    }

    PROBPROP_INLINE double evidence(const Outputs& out, const double* y, const double*,
                                    const double*, double*) {
        return log_Z_probit(out, y);
    }

    PROBPROP_INLINE int64_t learn_noise(const Outputs&, const double*, double*, double*) {
        return 0;  // the unit noise is fixed
    }
};

}  // namespace
}  // namespace PROBPROP_LEVEL
}  // namespace probprop

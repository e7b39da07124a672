// The class is the index of the largest output after unit noise is added (multinomial probit).
// The readable twin is src/probprop/reference/likelihoods.py, with the derivation.
#pragma once

#include <math.h>

#include "../kernel.hpp"
#include "../normal.hpp"
#include "../points.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// f(t) = exp(-t^2/(2 s_c^2)) prod_k Phi(z_k), z_k = t inv_s_k + shift_k, with t counted from m_c:
// log Z_c is the log of its integral over sqrt(2 pi) s_c.
struct ClassIntegrand {
    int n;
    double inv_v;           // 1/s_c^2
    double *inv_s, *shift;  // class c and the padding have 0 and 40, where Phi is 1
    double* scale;          // 1/mantissa at one t: products of n mantissas might underflow
    VecF64 *ratio, *sum_ratio, *sum_z_ratio;  // one vector of nodes per class
};

// The trapezoidal rule in x, on t = left + b (exp(x) - 1) with b = widen times the width of f at
// the left end.
struct ClassRule {
    static constexpr double far = 8.94427190999916;  // sqrt(2 * 40): in widths, to the left end
    static constexpr double negligible = 4e-18;      // exp(-40)
    static constexpr double widen = 8.0;             // steps grow like width + (t - left)/8
    static constexpr double dx = 0.04375, exp_dx = 1.0447211419526991;
    static constexpr double z_max = 10.0;  // beyond, 1 - Phi and phi are below 1e-22
};

PROBPROP_INLINE size_t padded_classes(int n) {
    constexpr size_t lanes = Simd<double>::lanes;
    return (static_cast<size_t>(n) + lanes - 1) / lanes * lanes;
}

// The doubles, aligned to 64 bytes, that integrate_class works in.
PROBPROP_INLINE size_t class_scratch(int n) {
    return 3 * padded_classes(n) * (1 + Simd<double>::lanes);
}

PROBPROP_INLINE ClassIntegrand class_integrand(const double* m, const double* v, int c, int n,
                                               double* scratch) {
    const size_t padded = padded_classes(n);
    VecF64* vectors = reinterpret_cast<VecF64*>(scratch + 3 * padded);
    const ClassIntegrand f = {n,
                              1.0 / (1.0 + v[c]),
                              scratch,
                              scratch + padded,
                              scratch + 2 * padded,
                              vectors,
                              vectors + padded,
                              vectors + 2 * padded};
    for (int k = 0; k < static_cast<int>(padded); ++k) {
        const bool is_factor = k < n && k != c;
        f.inv_s[k] = is_factor ? 1.0 / __builtin_sqrt(1.0 + v[k]) : 0.0;
        f.shift[k] = is_factor ? (m[c] - m[k]) * f.inv_s[k] : 40.0;
    }
    return f;
}

// f(t) = exp(exponent) prod_k 1/scale_k; (log f)', and 1/sqrt(-(log f)'').
struct ClassPoint {
    double exponent, slope, width;
};

PROBPROP_INLINE ClassPoint evaluate(ClassIntegrand& f, double t) {
    VecF64 exponent = {}, slope = {}, curvature = {};
    for (int k = 0; k < f.n; k += Simd<double>::lanes) {
        const VecF64 inv_s = load(f.inv_s + k);
        const VecF64 z = t * inv_s + load(f.shift + k);
        const NormalParts parts = normal_parts(z);
        store(f.scale + k, 1.0 / parts.mantissa);
        exponent += lower_exponent(z);
        slope += parts.ratio * inv_s;
        curvature += parts.ratio * parts.gap * inv_s * inv_s;
    }
    return {sum_lanes<double>(exponent) - 0.5 * t * t * f.inv_v,
            sum_lanes<double>(slope) - t * f.inv_v,
            1.0 / __builtin_sqrt(sum_lanes<double>(curvature) + f.inv_v)};
}

PROBPROP_INLINE double log_mantissa(const ClassIntegrand& f) {
    double product = 1.0, sum = 0.0;
    for (int k = 0; k < f.n; ++k) {
        product *= f.scale[k];
        if (product > 1e200) {
            sum += log(product);
            product = 1.0;
        }
    }
    return -sum - log(product);
}

// f is near its maximum at `top`; at `left` it is negligible and varies over `width`. The scales
// refer to the left end: f(t)/f(top) is exp(exponent - offset) prod_k (scale_k mantissa_k).
struct Window {
    double top, log_f_top, left, width, offset;
};

PROBPROP_INLINE Window find_window(ClassIntegrand& f) {
    constexpr int max_steps = 100;  // ten are many
    constexpr double far = ClassRule::far;
    double top = 0.0;
    ClassPoint at = evaluate(f, top);
    for (int i = 0; i < max_steps && at.slope * at.width >= 0.3; ++i) {
        top += at.slope * at.width * at.width;
        at = evaluate(f, top);
    }
    const double log_f_top = at.exponent + log_mantissa(f);
    double left = top - far * at.width, offset = log_f_top;
    for (int i = 0; i < max_steps; ++i) {
        at = evaluate(f, left);
        offset = log_f_top - log_mantissa(f);
        const double q = __builtin_sqrt(2.0 * (offset - at.exponent));
        if (!(q >= far + 1.0)) break;
        left += (q - far) * q / at.slope;
    }
    return {top, log_f_top, left, at.width, offset};
}

// Sums over the nodes: of f(t)/f(top) dt/(b dx), and of that times sum_k d log Phi(z_k)/dt, and
// times t as well.
struct NodeSums {
    VecF64 f, f_rate, f_rate_t;
};

// Add a vector of nodes t with their dt/(b dx); returns f(t)/f(top).
template <bool with_gradient>
PROBPROP_INLINE VecF64 add_nodes(const ClassIntegrand& f, double offset, VecF64 t, VecF64 dt,
                                 NodeSums& sums) {
    VecF64 exponent = (-0.5 * f.inv_v) * t * t - offset;
    VecF64 mantissa = splat(1.0), rate = {};
    for (int k = 0; k < f.n; ++k) {
        const VecF64 z = t * f.inv_s[k] + f.shift[k];
        if (z[0] > ClassRule::z_max) {
            mantissa *= f.scale[k];
            if (with_gradient) f.ratio[k] = VecF64{};
            continue;
        }
        const NormalParts parts = normal_parts(z);
        exponent += lower_exponent(z);
        mantissa *= parts.mantissa * f.scale[k];
        if (with_gradient) {
            f.ratio[k] = parts.ratio;
            rate += parts.ratio * f.inv_s[k];
        }
    }
    // The exponent can be above 0, where the mantissa is small, but by far too little to overflow.
    const VecF64 value = mantissa * exp_nonpositive<double>(exponent);
    const VecF64 weight = value * dt;
    sums.f += weight;
    if (with_gradient) {
        sums.f_rate += weight * rate;
        sums.f_rate_t += weight * rate * t;
        for (int k = 0; k < f.n; ++k) {
            const VecF64 f_ratio = weight * f.ratio[k];
            f.sum_ratio[k] += f_ratio;
            f.sum_z_ratio[k] += f_ratio * (t * f.inv_s[k] + f.shift[k]);
        }
    }
    return value;
}

// log Z_c, the log of the probability that output c is the largest of n, each with unit noise;
// with the derivatives if asked.
template <bool with_gradient>
static double integrate_class(const double* m, const double* v, int c, int n, double* d_m,
                              double* d_v, double* scratch) {
    constexpr int last = Simd<double>::lanes - 1;
    constexpr int max_vectors = 4096;  // fifteen are many
    ClassIntegrand f = class_integrand(m, v, c, n, scratch);
    const Window window = find_window(f);
    if (with_gradient)
        for (int k = 0; k < n; ++k) f.sum_ratio[k] = f.sum_z_ratio[k] = VecF64{};

    NodeSums sums = {};
    const double b = ClassRule::widen * window.width;
    VecF64 exp_x = splat(1.0);
    for (int i = 1; i <= last; ++i) exp_x[i] = exp_x[i - 1] * ClassRule::exp_dx;
    const double to_next = exp_x[last] * ClassRule::exp_dx;
    for (int i = 0; i < max_vectors; ++i, exp_x *= to_next) {
        const VecF64 t = (window.left - b) + b * exp_x;
        const VecF64 value = add_nodes<with_gradient>(f, window.offset, t, exp_x, sums);
        if (!(t[last] < window.top || value[last] > ClassRule::negligible)) break;
    }

    const double total = sum_lanes<double>(sums.f);
    if (with_gradient) {
        for (int k = 0; k < n; ++k) {
            const double rate = f.inv_s[k] / total;
            d_m[k] = -rate * sum_lanes<double>(f.sum_ratio[k]);
            d_v[k] = -0.5 * rate * f.inv_s[k] * sum_lanes<double>(f.sum_z_ratio[k]);
        }
        d_m[c] = sum_lanes<double>(sums.f_rate) / total;
        d_v[c] = 0.5 * f.inv_v * sum_lanes<double>(sums.f_rate_t) / total;
    }
    // Exponents of this size are not exact to 1, so sums over nodes may overflow, and next to log f
    // the width of f does not count.
    if (window.log_f_top < -1e15) return window.log_f_top;
    const double log_Z =
        window.log_f_top + log(total * b * ClassRule::dx * density_at_0 * __builtin_sqrt(f.inv_v));
    return log_Z > 0.0 ? 0.0 : log_Z;  // the rule's error must not lift Z above 1
}

namespace {

struct Multinomial {
    static constexpr const char* name = "multinomial";
    static int n_targets(int) { return 1; }
    static int n_noise(int) { return 1; }
    static constexpr bool weights_divide_noise = false;
    static size_t n_scratch(int n_outputs) { return class_scratch(n_outputs); }

    static const char* objection(const Matrix& y, int n_outputs) {
        if (!(n_outputs >= 2 && y.n_columns == 1))
            return "classes need two outputs or more and one target";
        for (int64_t i = 0; i < y.n_rows; ++i) {
            const double c = entry(y, i, 0);
            if (!(c >= 0.0 && c < n_outputs && c == int(c)))
                return "a target is not the index of a class";
        }
        return nullptr;
    }

    PROBPROP_INLINE double evidence(const Outputs& out, const double* y, const double*,
                                    const double*, double* scratch) {
        return integrate_class<true>(out.m, out.v, int(y[0]), out.n, out.d_m, out.d_v, scratch);
    }

    PROBPROP_INLINE int64_t learn_noise(const Outputs&, const double*, double*, double*) {
        return 0;  // the unit noise is fixed
    }
};

}  // namespace
}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// A residual whose noise variance e^g is log-normal: the integral over g, and its derivatives.
// The readable twin, which has the mathematics, is src/probprop/reference/scale_mixture.py.
#pragma once

#include <math.h>

#include "simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// log Z and its derivatives; m is the mean, d = y - m. Those not used cost nothing.
struct ScaleMixture {
    double log_Z, d_mu, d_var, d_m, d_v;
};

struct ScaleRule {
    static constexpr double d_max = 1e150, g_max = 700.0;
    static constexpr double step_g = 0.25, step_width = 0.5;
    static constexpr double negligible = 2.3195228302435696e-16;  // exp(-36)
    static constexpr double drop = 60.0, near = 0.3, u_narrow = 1e8;
    static constexpr double g_end = 706.0, e_end = 4.0917041416340054e+306;  // exp(g_end)
    static constexpr double d_far = 1e250, log_d_far = 575.6462732485115;
    static constexpr int max_steps = 200, max_nodes = 1 << 20;
};

struct ScaleIntegrand {
    double d2, v, mu, sigma;
};

// The integrand at u; slope and curvature of its logarithm, by u.
struct ScalePoint {
    double u, e_g, s, inv_s, D, slope, curvature;
};

PROBPROP_INLINE ScalePoint evaluate(const ScaleIntegrand& f, double u) {
    const double e_g = exp(f.mu + f.sigma * u);
    const double s = f.v + e_g, inv_s = 1.0 / s;
    const double k = e_g * inv_s, D = f.d2 * inv_s;
    const double L1 = 0.5 * k * (D - 1.0);
    const double L2 = (f.v * inv_s) * L1 - 0.5 * k * k * D;
    return {u, e_g, s, inv_s, D, f.sigma * L1 - u, f.sigma * f.sigma * L2 - 1.0};
}

PROBPROP_INLINE double height(const ScalePoint& at) {
    return -0.5 * (log(at.s) + at.D + at.u * at.u);
}

PROBPROP_INLINE bool is_near(const ScalePoint& at) {
    return at.slope * at.slope < ScaleRule::near * ScaleRule::near * -at.curvature;
}

// The mode where the logarithm is concave; `start` is 0, or left of the mode.
static ScalePoint concave_mode(const ScaleIntegrand& f, double start) {
    double u = start, low = start > 0.0 ? start : -0.5 * f.sigma;
    double high = (ScaleRule::g_end - f.mu) / f.sigma;
    ScalePoint at = evaluate(f, u);
    for (int i = 0; i < ScaleRule::max_steps; ++i) {
        if (is_near(at) || fabs(at.slope) < 1e-14 * u) break;
        (at.slope > 0.0 ? low : high) = u;
        const double pull = at.slope + u;  // sigma L'
        if (u > 0.0 && pull > 2.0 * u)
            u += log(pull / u) / (1.0 / u - (at.curvature + 1.0) / pull);
        else
            u -= at.slope / at.curvature;
        if (!(low < u && u < high)) u = 0.5 * (low + high);
        at = evaluate(f, u);
    }
    return at;
}

// The first mode right of a point where the slope is positive, or left of a negative one.
static bool mode_along(const ScaleIntegrand& f, double start, ScalePoint& at) {
    const double high = (ScaleRule::g_end - f.mu) / f.sigma;
    at = evaluate(f, start);
    for (int i = 0; i < ScaleRule::max_steps; ++i) {
        if (at.curvature >= 0.0) return false;
        if (is_near(at) || fabs(at.slope) < 1e-14 * at.u) break;
        const double u = at.u - at.slope / at.curvature;
        at = evaluate(f, u < high ? u : high);
    }
    return true;
}

PROBPROP_INLINE double scale_step(const ScaleIntegrand& f, double u) {
    const double curvature = 1.0 + f.sigma * (0.5 * f.sigma + (u > 0.0 ? u : 0.0));
    const double by_width = ScaleRule::step_width / __builtin_sqrt(curvature);
    return by_width * f.sigma < ScaleRule::step_g ? by_width : ScaleRule::step_g / f.sigma;
}

// A mode to begin at, how far left the rule must go at least, and the step in u.
struct ScalePlan {
    ScalePoint top;
    double leftmost, u_step;
};

// Where there may be two modes, which is rare.
static __attribute__((noinline)) ScalePlan plan_two_modes(const ScaleIntegrand& f, double start,
                                                          double bend) {
    const double u_bend = (log(bend) - f.mu) / f.sigma;
    const double from = start > u_bend ? start : u_bend;
    const ScalePoint at_bend = evaluate(f, u_bend);
    const bool falls = !(at_bend.slope > 0.0);
    ScalePoint left, right;
    const bool has_left = mode_along(f, -0.5 * f.sigma, left) && left.u < u_bend;
    bool has_right = true;
    if (falls)
        has_right = mode_along(f, u_bend, right);
    else
        right = concave_mode(f, from);
    const double u_step = scale_step(f, falls ? u_bend : right.u);
    if (!has_left || !has_right) {
        const ScalePoint top = has_right ? right : has_left ? left : at_bend;
        return {top, top.u, u_step};
    }
    const double lead = height(right) - height(left);
    if (lead < -ScaleRule::drop) return {left, left.u, scale_step(f, u_bend)};
    return {right, lead > ScaleRule::drop ? right.u : left.u, u_step};
}

PROBPROP_INLINE ScalePlan plan(const ScaleIntegrand& f) {
    const double bend = f.d2 > f.v ? f.v * ((f.d2 - f.v) / (f.d2 + f.v)) : 0.0;
    const double e_mu = exp(f.mu);
    double start = 0.0;
    if (!PROBPROP_LIKELY(f.d2 <= ScaleRule::d_far * (f.v + e_mu)))
        start = (log(f.d2) - f.mu - ScaleRule::log_d_far) / f.sigma;
    if (bend > e_mu) return plan_two_modes(f, start, bend);
    const ScalePoint top = concave_mode(f, start);
    return {top, top.u, scale_step(f, top.u)};
}

// Sums of the integrand, relative to the top, and of it times what the derivatives average.
struct ScaleSums {
    VecF64 f, mu, var, inv_s, v;
};

PROBPROP_INLINE void add(ScaleSums& sums, const ScaleIntegrand& f, VecF64 relative, VecF64 e_g,
                         VecF64 inv_s) {
    const VecF64 k = e_g * inv_s, D = f.d2 * inv_s;
    const VecF64 L1 = 0.5 * k * (D - 1.0);
    const VecF64 L2 = (f.v * inv_s) * L1 - 0.5 * k * k * D;
    sums.f += relative;
    sums.mu += relative * L1;
    sums.var += relative * (0.5 * (L2 + L1 * L1));
    sums.inv_s += relative * inv_s;
    sums.v += relative * (0.5 * (D - 1.0) * inv_s);
}

// The nodes on one side of the top; `sign` is 1 or -1, `grow` exp(sign sigma u_step) - 1.
template <int sign>
PROBPROP_INLINE void march(const ScaleIntegrand& f, const ScalePlan& at, double grow,
                           ScaleSums& sums) {
    constexpr int lanes = Simd<double>::lanes, last = lanes - 1;
    const ScalePoint& top = at.top;
    // Of each lane: delta = u - top.u, q = e^g/e^g(top), and q - 1, which keeps its digits.
    VecF64 delta, q, q_less_1;
    double power = 1.0, less_1 = 0.0;
    for (int i = 0; i < lanes; ++i) {
        less_1 = less_1 * (1.0 + grow) + grow;
        power *= 1.0 + grow;
        delta[i] = sign * at.u_step * (i + 1);
        q[i] = power;
        q_less_1[i] = less_1;
    }
    const double far = sign * at.u_step * lanes;
    const VecF64 end = splat(ScaleRule::e_end), begin = splat(1.0 / ScaleRule::e_end);
    for (int i = 0; i < ScaleRule::max_nodes; i += lanes) {
        const VecF64 e_g = max(min(top.e_g * q, end), begin);
        const VecF64 inv_s = 1.0 / (f.v + e_g), s_ratio = top.s * inv_s;
        const VecF64 rise = (0.5 * top.D) * (min(top.e_g * q_less_1, end) * inv_s);
        // Two modes: this one may be the lower, by exp(60) at most, and the power above 0.
        const VecF64 relative =
            sqrt(s_ratio) * exp_nonpositive<double>(rise - 0.5 * delta * (delta + 2.0 * top.u));
        add(sums, f, relative, e_g, inv_s);
        const double reach = relative[last] * (s_ratio[last] > 1.0 ? s_ratio[last] : 1.0);
        const bool beyond = sign > 0 || top.u + delta[last] < at.leftmost;
        if (PROBPROP_LIKELY(beyond) && !(reach >= ScaleRule::negligible)) return;
        delta += far;
        q_less_1 = q_less_1 * (1.0 + less_1) + less_1;
        q *= power;
    }
    sums.f += __builtin_nan("");  // two narrow modes too far apart: refused
}

PROBPROP_INLINE bool in_range(double d, double v, double mu, double var) {
    return fabs(d) <= ScaleRule::d_max && v >= 0.0 && v <= ScaleRule::d_max * ScaleRule::d_max &&
           var >= 0.0 && fabs(mu) + 6.0 * __builtin_sqrt(var) + 0.5 * var <= ScaleRule::g_max;
}

// The integral of N(d | 0, v + e^g) N(g | mu, var) over g; NaN where the arguments are out of
// range.
PROBPROP_INLINE ScaleMixture scale_mixture(double d, double v, double mu, double var) {
    constexpr double two_pi = 6.283185307179586;
    const double nan = __builtin_nan("");
    if (!PROBPROP_LIKELY(in_range(d, v, mu, var))) return {nan, nan, nan, nan, nan};
    const ScaleIntegrand f = {d * d, v, mu, __builtin_sqrt(var)};
    const bool gaussian = !(f.sigma > 0.0);
    const ScalePlan at = gaussian ? ScalePlan{evaluate(f, 0.0), 0.0, 0.0} : plan(f);
    const ScalePoint& top = at.top;
    ScaleSums sums = {};
    VecF64 first = {};
    first[0] = 1.0;  // the node at the top
    add(sums, f, first, splat(top.e_g), splat(top.inv_s));
    double u_step = at.u_step;
    if (gaussian) {
        u_step = __builtin_sqrt(two_pi);
    } else if (!PROBPROP_LIKELY(top.u <= ScaleRule::u_narrow)) {
        u_step = __builtin_sqrt(-two_pi / top.curvature);
    } else {
        const double grow = expm1(f.sigma * u_step);
        march<1>(f, at, grow, sums);
        march<-1>(f, at, -grow / (1.0 + grow), sums);
    }
    const double total = sum_lanes<double>(sums.f), inv_total = 1.0 / total;
    const double log_Z =
        log(u_step * total * __builtin_sqrt(top.inv_s) / two_pi) - 0.5 * (top.D + top.u * top.u);
    return {log_Z, sum_lanes<double>(sums.mu) * inv_total, sum_lanes<double>(sums.var) * inv_total,
            d * (sum_lanes<double>(sums.inv_s) * inv_total), sum_lanes<double>(sums.v) * inv_total};
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

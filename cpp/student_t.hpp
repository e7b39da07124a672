// A Gaussian plus Student-t noise: density and tail, by the trapezoidal rule over the precision.
//
// The noise has the precision gamma ~ Gam(alpha, beta), beta = (alpha - 1) aleatoric_std^2, so that
//
//     p(r) = int N(r | 0, v + 1/gamma) Gam(gamma | alpha, beta) dgamma.
//
// With s = log(gamma beta/alpha) and kappa = v alpha/beta the integrand in s is exp(M(s)) times a
// factor that varies slowly (sqrt(w/(2 pi)) for the density, Phi(-x) exp(x^2/2) at
// x = |r| sqrt(w) for the tail), where
//
//     M(s) = -alpha (e^s - 1 - s) - r^2 w/2,    w = 1/(v + 1/gamma).
//
// 1. M'(s) = 0 is a cubic in e^s with all its roots in s < 0. In l = logit(e^s) it reads
//    l + log(eta) - 2 log(1 + kappa e^s) = 0 with eta = r^2/(2 beta). There is one root for
//    kappa <= 8; else the left side turns twice, at points known in closed form, and there may be
//    three: the mode of an outlier on the left, an antimode, and the mode near the prior's.
// 2. On the line Im s = theta, |exp M(s + i theta)| <= cos(theta)^-alpha exp M(s + log cos theta)
//    for |theta| < pi/2. A step h therefore has the relative error 2 cos(theta)^-alpha
//    exp(-2 pi theta/h) for every v and r: the step depends on alpha only.
// 3. What lies more than `depth` below the maximum of M does not count. The sum goes from a mode
//    outwards, in t = s - s_mode, in which differences of M keep their digits at any alpha.
#pragma once

#include <math.h>

#include "normal.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

constexpr double log_2 = 0.6931471805599453;

struct StudentRule {
    static constexpr double depth = 45.0;       // exp(-45) = 3e-20 of the maximum is left out
    static constexpr double log_error = 40.0;   // exp(-40) = 4e-18: the error of the rule
    static constexpr double log_zero = -700.0;  // the log of a negligible number
    static constexpr int max_steps = 200;
};

// The step, and the log of the integral of exp(-alpha (e^s - 1 - s)), which depend on alpha only.
struct StudentPrior {
    double alpha, step, log_norm, log_excess;  // log_excess = log(alpha/(alpha - 1))
};

// Where the sum begins: s_mode in several forms, and r^2 w/2 and log w (times beta/alpha) there.
struct StudentMode {
    double s, g, g_less_1;   // e^s and e^s - 1
    double half, c, c_rest;  // c = kappa e^s/(1 + kappa e^s), and 1 - c
    double log_w;
};

struct StudentSums {
    double density, tail;  // relative to the mode
};

PROBPROP_INLINE double log1p_exp(double x) { return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static StudentMode mode_at(double logit, double log_kappa, double log_half) {
    StudentMode at;
    at.s = -log1p_exp(-logit);
    at.g = exp(at.s);
    at.g_less_1 = -1.0 / (1.0 + exp(logit));
    const double log_1_kg = log1p_exp(log_kappa + at.s);
    at.half = exp(log_half + at.s - log_1_kg);
    at.c = exp(log_kappa + at.s - log_1_kg);
    at.c_rest = exp(-log_1_kg);
    at.log_w = at.s - log_1_kg;
    return at;
}

// e^t, and e^t - 1 - t with all its digits.
PROBPROP_INLINE VecF64 exp_excess(VecF64 t, VecF64& excess) {
    static constexpr double series[] = {0.5,
                                        1.0 / 6,
                                        1.0 / 24,
                                        1.0 / 120,
                                        1.0 / 720,
                                        1.0 / 5040,
                                        1.0 / 40320,
                                        1.0 / 362880,
                                        1.0 / 3628800,
                                        1.0 / 39916800,
                                        1.0 / 479001600,
                                        1.0 / 6227020800.0,
                                        1.0 / 87178291200.0};
    const VecF64 down = exp_nonpositive<double>(-abs<double>(t));
    const VecF64 e_t = t > 0.0 ? 1.0 / down : down;
    const VecF64 small = t * t * horner<double, 12>(series, t);
    excess = abs<double>(t) < 0.35 ? small : e_t - 1.0 - t;
    return e_t;
}

// M(s_mode + t) - M(s_mode), and the ratio of w there to w at the mode.
PROBPROP_INLINE VecF64 student_rise(const StudentMode& at, double alpha, VecF64 t, VecF64& ratio) {
    VecF64 excess;
    const VecF64 e_t = exp_excess(t, excess);
    const VecF64 inverse = 1.0 / (at.c_rest + at.c * e_t);
    ratio = e_t * inverse;
    return -alpha * (at.g * excess + at.g_less_1 * t) -
           (at.half * at.c_rest) * ((t + excess) * inverse);
}

PROBPROP_INLINE double student_rise_at(const StudentMode& at, double alpha, double t) {
    VecF64 ratio;
    return student_rise(at, alpha, splat(t), ratio)[0];
}

// Phi(-x) exp(x^2/2) of x >= 0; beyond 1e8 it is 1/x to all digits.
PROBPROP_INLINE VecF64 scaled_tail(VecF64 x) {
    const VecF64 near = normal_parts(-min(x, splat(1e8))).mantissa;
    return x < 1e8 ? near : density_at_0 / x;
}

// The minimum and maximum distance from a mode of the nodes on one side of it.
struct Reach {
    double least = 0.0, most = INFINITY;
};

template <int sign>
PROBPROP_INLINE void student_march(const StudentMode& at, const StudentPrior& prior, Reach reach,
                                   StudentSums& sums) {
    constexpr int lanes = Simd<double>::lanes, last = lanes - 1;
    VecF64 index;
    for (int i = 0; i < lanes; ++i) index[i] = i + 1.0;
    VecF64 density = {}, tail = {};
    for (;; index += double(lanes)) {
        const VecF64 t = (sign * prior.step) * index;
        VecF64 ratio;
        const VecF64 rise = student_rise(at, prior.alpha, t, ratio);
        const VecF64 inside = exp_nonpositive<double>(min(rise, VecF64{}));
        const VecF64 f = sign * t > reach.most ? VecF64{} : inside;
        density += f * sqrt(ratio);
        tail += f * scaled_tail(sqrt(2.0 * at.half * ratio));
        const double far = sign * t[last];
        if (far > reach.most || (far > reach.least && !(rise[last] > -StudentRule::depth))) break;
    }
    sums.density += sum_lanes<double>(density);
    sums.tail += sum_lanes<double>(tail);
}

// Sums around a mode, relative to it.
static StudentSums student_sums(const StudentMode& at, const StudentPrior& prior, Reach left,
                                Reach right) {
    StudentSums sums = {1.0, scaled_tail(splat(__builtin_sqrt(2.0 * at.half)))[0]};
    student_march<1>(at, prior, right, sums);
    student_march<-1>(at, prior, left, sums);
    return sums;
}

static StudentPrior student_prior(double alpha) {
    StudentPrior prior = {alpha, 0.0, 0.0, log(alpha / (alpha - 1.0))};
    // The best theta; alpha + 1 rather than alpha leaves room for the slow factors.
    const double widest = __builtin_sqrt(2.0 * StudentRule::log_error / alpha);
    const double limit = widest < 1.5 ? widest : 1.5;
    for (int i = 1; i <= 100; ++i) {
        const double theta = 0.01 * i * limit;
        const double log_cos = 0.5 * log1p(-sin(theta) * sin(theta));
        const double h =
            6.283185307179586 * theta / (StudentRule::log_error - (alpha + 1.0) * log_cos);
        if (h > prior.step) prior.step = h;
    }
    const StudentMode at = {0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
    VecF64 density = splat(0.0);
    constexpr int lanes = Simd<double>::lanes;
    VecF64 index;
    for (int i = 0; i < lanes; ++i) index[i] = i + 1.0;
    for (double rise = 0.0; rise > -StudentRule::depth; index += double(lanes)) {
        VecF64 ratio;
        const VecF64 left = student_rise(at, alpha, -prior.step * index, ratio);
        const VecF64 right = student_rise(at, alpha, prior.step * index, ratio);
        density += exp_nonpositive<double>(left) + exp_nonpositive<double>(right);
        rise = left[lanes - 1];  // the left side falls more slowly
    }
    prior.log_norm = log(prior.step * (1.0 + sum_lanes<double>(density)));
    return prior;
}

struct StudentBalance {
    double log_eta, log_kappa;
};

// The left side of fact 1, and its slope.
PROBPROP_INLINE double balance(const StudentBalance& f, double logit, double& slope) {
    const double x = f.log_kappa - log1p_exp(-logit);  // log(kappa g)
    const double share = x > 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
    slope = 1.0 - 2.0 * share / (1.0 + exp(logit));
    return logit + f.log_eta - 2.0 * log1p_exp(x);
}

// Newton's method inside a bracket: balance(below) < 0 <= balance(above), in either order.
static double balance_root(const StudentBalance& f, double below, double above) {
    double x = 0.5 * (below + above), before = fabs(above - below);
    for (int i = 0; i < StudentRule::max_steps; ++i) {
        double slope;
        const double value = balance(f, x, slope);
        (value < 0.0 ? below : above) = x;
        const double low = below < above ? below : above, high = below < above ? above : below;
        const double step = value / slope;
        const bool good = low <= x - step && x - step <= high && fabs(step) <= 0.5 * before;
        const double next = good ? x - step : 0.5 * (below + above);
        before = fabs(next - x);
        if (before <= 1e-13 * (1.0 + fabs(x))) break;
        x = next;
    }
    return x;
}

// The higher mode of M and, where there are two, the lower one, whose exp(M) is exp(behind) times
// as high. `behind` is minus infinity where the sum around the top includes everything.
struct StudentModes {
    StudentMode top, low;
    double behind;
    Reach top_left, top_right, low_left, low_right;
};

static StudentModes student_modes(double alpha, double log_kappa, double log_half) {
    const StudentBalance f = {log_half - log(alpha), log_kappa};
    const double first = -f.log_eta;  // where kappa has no effect
    const double last = first + 2.0 * log1p_exp(log_kappa);
    if (log_kappa > log(8.0)) {
        // With g = e^s the slope is 0 where 2 kappa g^2 - kappa g + 1 = 0.
        const double spread = __builtin_sqrt(-expm1(log(8.0) - log_kappa));
        const double log_g = log_2 - log_kappa - log1p(spread);
        const double turn_1 = log_g - log1p(-exp(log_g));
        const double g_2 = 0.25 * (1.0 + spread), turn_2 = log(g_2) - log1p(-g_2);
        double slope;
        if (balance(f, turn_1, slope) > 0.0 && balance(f, turn_2, slope) < 0.0) {
            const StudentMode a = mode_at(balance_root(f, first, turn_1), log_kappa, log_half);
            const StudentMode b = mode_at(balance_root(f, turn_2, last), log_kappa, log_half);
            const double antimode = -log1p_exp(-balance_root(f, turn_2, turn_1));
            const double gap = b.s - a.s, lead = student_rise_at(a, alpha, gap);
            const StudentMode &top = lead > 0.0 ? b : a, &low = lead > 0.0 ? a : b;
            const bool apart = student_rise_at(top, alpha, antimode - top.s) < -StudentRule::depth;
            // Two sums that meet at the antimode, or one through it to the other mode.
            const Reach of_a = apart ? Reach{0.0, antimode - a.s} : Reach{gap, INFINITY};
            const Reach of_b = apart ? Reach{0.0, b.s - antimode} : Reach{gap, INFINITY};
            const double behind = apart ? -fabs(lead) : -INFINITY;
            if (lead > 0.0) return {top, low, behind, of_b, {}, {}, of_a};
            return {top, low, behind, {}, of_a, of_b, {}};
        }
    }
    const double logit = last > first ? balance_root(f, first, last) : first;
    const StudentMode top = mode_at(logit, log_kappa, log_half);
    return {top, top, -INFINITY, {}, {}, {}, {}};
}

// The logs of the density at a residual r and of the probability beyond |r|.
struct StudentT {
    double log_density, log_tail;
};

static StudentT student_t(double r, double epistemic_std, double aleatoric_std,
                          const StudentPrior& prior) {
    const double log_b = log(aleatoric_std);
    const double log_kappa = 2.0 * (log(epistemic_std) - log_b) + prior.log_excess;
    const double half = 2.0 * (log(fabs(r)) - log_b) - log_2 + prior.log_excess;
    const double log_half = half > StudentRule::log_zero ? half : StudentRule::log_zero;
    const StudentModes modes = student_modes(prior.alpha, log_kappa, log_half);
    const StudentMode& top = modes.top;
    StudentSums sums = student_sums(top, prior, modes.top_left, modes.top_right);
    if (modes.behind > -StudentRule::depth) {
        const StudentSums low = student_sums(modes.low, prior, modes.low_left, modes.low_right);
        sums.tail += exp(modes.behind) * low.tail;
        sums.density += exp(modes.behind + 0.5 * (modes.low.log_w - top.log_w)) * low.density;
    }
    VecF64 excess;
    exp_excess(splat(top.s), excess);
    const double height = -prior.alpha * excess[0] - top.half - prior.log_norm;
    const double log_scale = 0.5 * (top.log_w + prior.log_excess) - log_b + log(density_at_0);
    return {height + log_scale + log(prior.step * sums.density),
            height + log(prior.step * sums.tail)};
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

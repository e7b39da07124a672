// Box-Cox-transformed targets: moments, and their derivatives, of many components.
//
// A component is z = m + s u, u ~ N(0, 1); the share rho of s^2 is the model's, the rest is noise.
// With the normalized Hermite polynomials H_k and c_k = E[y H_k(u)] two targets that share the
// network output but not the noise have the covariance (Mehler's formula) sum over k >= 1 of
// rho^k c_k^2, the variance of E[y | network output]. All c_k come from one sum over u by the
// trapezoidal rule. Derivatives are taken of that sum: dy = y'(z) (dm + u ds).
#pragma once

#include <math.h>

#include "arena.hpp"
#include "kernel.hpp"
#include "simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// y(z), in units of the transformation; 0 below the support. Smaller powers are the logarithm.
PROBPROP_INLINE double box_cox_inverse(double z, double power) {
    if (power < 1e-18) return exp(z);
    return 1.0 + power * z > 0.0 ? exp(log1p(power * z) / power) : 0.0;
}

struct PowerRule {
    static constexpr double reach = 9.0;      // standard deviations of u on either side of the mass
    static constexpr double farthest = 38.0;  // the density of u is 0 beyond
    static constexpr double step = 0.25;      // of u
    static constexpr double fine = 0.05;      // where the kink at a target of 0 is seen
    static constexpr double log_last = 340.0;  // of y in units: its square and sums are floats
    static constexpr int n_coefficients = 30;
    static constexpr int max_nodes = 960;
};

// Nodes u with weights that add to 1, and y less its mean there; padded to whole vectors with
// weights of 0.
struct PowerNodes {
    int n;
    double *u, *w, *y, *slope;  // slope: dy/dz
};

// E[f], E[f H_1], ..., E[f H_30] and E[f f'] of values f and f' at the nodes.
struct PowerSums {
    double mean, product;
    double c[PowerRule::n_coefficients];
};

static void power_sums(const PowerNodes& at, const double* f, const double* other, PowerSums& out) {
    constexpr int lanes = Simd<double>::lanes, n = PowerRule::n_coefficients;
    double a[n + 1], b[n + 1];  // H_{k+1} = a_k u H_k - b_k H_{k-1}
    for (int k = 1; k < n; ++k) {
        a[k] = 1.0 / __builtin_sqrt(k + 1.0);
        b[k] = __builtin_sqrt(double(k)) * a[k];
    }
    VecF64 mean = {}, product = {}, c[n] = {};
    for (int j = 0; j < at.n; j += lanes) {
        const VecF64 u = load<double>(at.u + j);
        const VecF64 wf = load<double>(at.w + j) * load<double>(f + j);
        mean += wf;
        product += wf * load<double>(other + j);
        VecF64 before = splat(1.0), h = u;
        for (int k = 1; k <= n; ++k) {
            c[k - 1] += wf * h;
            const VecF64 next = k < n ? a[k] * u * h - b[k] * before : h;
            before = h;
            h = next;
        }
    }
    out.mean = sum_lanes<double>(mean);
    out.product = sum_lanes<double>(product);
    for (int k = 0; k < n; ++k) out.c[k] = sum_lanes<double>(c[k]);
}

// Returns the mean of y; what is kept is y less its mean.
static double place_nodes(double m, double s, double power, double last, bool with_slopes,
                          PowerNodes& at) {
    constexpr int lanes = Simd<double>::lanes;
    // Below, the probability of the kink is less than 1e-9, of a sharp one less than 1e-11.
    const double seen = power > 0.5 ? 7.0 : 6.0;
    const bool kink = !(1.0 + power * (m - seen * s) > 0.0);
    // The nodes do not move with `last`: moments would jump where their number changes.
    const double step = kink ? PowerRule::fine : PowerRule::step;
    at.n = int(ceil((last + PowerRule::reach) / step)) + 1;
    const int padded = (at.n + lanes - 1) / lanes * lanes;
    double total = 0.0, mean = 0.0;
    for (int j = 0; j < padded; ++j) {
        const double u = -PowerRule::reach + step * j, z = m + s * u;
        const double y = j < at.n ? box_cox_inverse(z, power) : 0.0;
        at.u[j] = u;
        at.w[j] = j < at.n ? exp(-0.5 * u * u) : 0.0;
        at.y[j] = y;
        if (with_slopes) at.slope[j] = !(y > 0.0) ? 0.0 : power < 1e-18 ? y : y / (1.0 + power * z);
        total += at.w[j];
        mean += at.w[j] * y;
    }
    mean /= total;
    for (int j = 0; j < padded; ++j) {
        at.w[j] /= total;
        at.y[j] -= mean;
    }
    return mean;
}

// Mean and standard deviations of model and noise, then their derivatives by m, epistemic_std and
// aleatoric_std; `out` is n entries apart.
static void power_moments_of(double m, double epistemic_std, double aleatoric_std, double power,
                             bool with_slopes, PowerNodes& at, double* out, int64_t n) {
    constexpr int n_k = PowerRule::n_coefficients;
    const double large = epistemic_std > aleatoric_std ? epistemic_std : aleatoric_std;
    const double x = epistemic_std / large, y = aleatoric_std / large;
    const double s = large * __builtin_sqrt(x * x + y * y);
    const double a = epistemic_std / s, b = aleatoric_std / s, rho = a * a;
    // Where y^2 N(u | 0, 1) is largest: the root of 2 s = u (1 + power (m + s u)).
    const double base = 1.0 + power * m;
    const double pull = 4.0 * s / (base + __builtin_sqrt(base * base + 8.0 * power * s * s));
    const double room = PowerRule::farthest - PowerRule::reach;
    const int n_out = with_slopes ? 12 : 3;
    // The sums do not reach so far, or they would overflow.
    const double z_last = m + PowerRule::farthest * s;
    const double log_last = power < 1e-18                ? z_last
                            : 1.0 + power * z_last > 0.0 ? log1p(power * z_last) / power
                                                         : -INFINITY;
    if ((pull > room && base > 0.0) || log_last > PowerRule::log_last) {
        for (int i = 0; i < n_out; ++i) out[i * n] = i < 3 ? INFINITY : __builtin_nan("");
        return;
    }
    const double last = (pull < room ? pull : room) + PowerRule::reach;
    const double mean = place_nodes(m, s, power, last, with_slopes, at);
    PowerSums of_y, of_dy;
    power_sums(at, at.y, at.y, of_y);
    const double variance = of_y.product;
    double rest = variance, of_model = 0.0, power_of_rho = 1.0;
    for (int k = 0; k < n_k; ++k) {
        power_of_rho *= rho;
        rest -= of_y.c[k] * of_y.c[k];
        of_model += of_y.c[k] * of_y.c[k] * power_of_rho;
    }
    const bool has_rest = rest > 0.0;
    rest = has_rest ? rest : 0.0;
    of_model += rest * power_of_rho * rho;
    of_model = of_model < variance ? of_model : variance;
    const bool finite = variance - variance == 0.0;
    const double stds[] = {__builtin_sqrt(of_model), __builtin_sqrt(variance - of_model)};
    out[0] = mean;
    for (int i = 0; i < 2; ++i) out[(1 + i) * n] = finite ? stds[i] : INFINITY;
    if (!with_slopes) return;

    // Derivatives of mean, variance and its model part by m, s and rho.
    double by[3][3] = {};
    for (int i = 0; i < 2; ++i) {
        if (i == 1)
            for (int j = 0; j < at.n; ++j) at.slope[j] *= at.u[j];
        power_sums(at, at.slope, at.y, of_dy);
        double squares = 0.0, model = 0.0, rho_k = 1.0;
        for (int k = 0; k < n_k; ++k) {
            rho_k *= rho;
            squares += 2.0 * of_y.c[k] * of_dy.c[k];
            model += 2.0 * of_y.c[k] * of_dy.c[k] * rho_k;
        }
        by[i][0] = of_dy.mean;
        by[i][1] = 2.0 * of_dy.product;  // y has the mean 0 here
        by[i][2] = model + (has_rest ? (by[i][1] - squares) * rho_k * rho : 0.0);
    }
    double rho_k = 1.0;
    for (int k = 0; k < n_k; ++k, rho_k *= rho) by[2][2] += (k + 1) * of_y.c[k] * of_y.c[k] * rho_k;
    by[2][2] += (n_k + 1) * rho_k * rest;
    for (double (&row)[3] : by) {  // to derivatives of the standard deviations
        const double noise = row[1] - row[2], model = row[2];
        row[1] = stds[0] != 0.0 ? 0.5 * model / stds[0] : 0.0;
        row[2] = stds[1] != 0.0 ? 0.5 * noise / stds[1] : 0.0;
    }
    for (int i = 0; i < 3; ++i) {
        const double slopes[] = {by[0][i], a * by[1][i] + 2.0 * a * b * b / s * by[2][i],
                                 b * by[1][i] - 2.0 * a * a * b / s * by[2][i]};
        for (int j = 0; j < 3; ++j)
            out[(3 + 3 * j + i) * n] = slopes[j] - slopes[j] == 0.0 ? slopes[j] : __builtin_nan("");
    }
}

static Status power_moments(const PowerArgs& args) {
    Arena arena;
    PowerNodes at;
    double** arrays[] = {&at.u, &at.w, &at.y, &at.slope};
    for (double** array : arrays) *array = arena.take<double>(PowerRule::max_nodes);
    if (!arena.reserve()) return Status::no_memory;
    for (double** array : arrays) *array = arena.take<double>(PowerRule::max_nodes);
    for (int64_t i = 0; i < args.n; ++i) {
        if (i % args.poll_every == 0 && !args.keep_going(args.context)) return Status::interrupted;
        power_moments_of(args.m[i], args.epistemic_std[i], args.aleatoric_std[i], args.power,
                         args.with_slopes, at, args.out + i, args.n);
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

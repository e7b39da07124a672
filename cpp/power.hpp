// Box-Cox-transformed targets: moments of many components.
//
// A component is z = m + s u, u ~ N(0, 1); the share rho of s^2 is the model's, the rest is noise.
// With the normalized Hermite polynomials H_k and c_k = E[y H_k(u)] two targets that share the
// network output but not the noise have the covariance (Mehler's formula) sum over k >= 1 of
// rho^k c_k^2, the variance of E[y | network output]. All c_k come from one sum over u by the
// trapezoidal rule.
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
    double *u, *w, *y;
};

// E[y H_1], ..., E[y H_30] and E[y^2].
struct PowerSums {
    double square;
    double c[PowerRule::n_coefficients];
};

static void power_sums(const PowerNodes& at, PowerSums& out) {
    constexpr int lanes = Simd<double>::lanes, n = PowerRule::n_coefficients;
    double a[n + 1], b[n + 1];  // H_{k+1} = a_k u H_k - b_k H_{k-1}
    for (int k = 1; k < n; ++k) {
        a[k] = 1.0 / __builtin_sqrt(k + 1.0);
        b[k] = __builtin_sqrt(double(k)) * a[k];
    }
    VecF64 square = {}, c[n] = {};
    for (int j = 0; j < at.n; j += lanes) {
        const VecF64 u = load<double>(at.u + j);
        const VecF64 wf = load<double>(at.w + j) * load<double>(at.y + j);
        square += wf * load<double>(at.y + j);
        VecF64 before = splat(1.0), h = u;
        for (int k = 1; k <= n; ++k) {
            c[k - 1] += wf * h;
            const VecF64 next = k < n ? a[k] * u * h - b[k] * before : h;
            before = h;
            h = next;
        }
    }
    out.square = sum_lanes<double>(square);
    for (int k = 0; k < n; ++k) out.c[k] = sum_lanes<double>(c[k]);
}

// Returns the mean of y; what is kept is y less its mean.
static double place_nodes(double m, double s, double power, double last, PowerNodes& at) {
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

// Mean and standard deviations of model and noise; `out` is n entries apart.
static void power_moments_of(double m, double epistemic_std, double aleatoric_std, double power,
                             PowerNodes& at, double* out, int64_t n) {
    constexpr int n_k = PowerRule::n_coefficients;
    const double large = epistemic_std > aleatoric_std ? epistemic_std : aleatoric_std;
    const double x = epistemic_std / large, y = aleatoric_std / large;
    const double s = large * __builtin_sqrt(x * x + y * y);
    const double a = epistemic_std / s, rho = a * a;
    // Where y^2 N(u | 0, 1) is largest: the root of 2 s = u (1 + power (m + s u)).
    const double base = 1.0 + power * m;
    const double pull = 4.0 * s / (base + __builtin_sqrt(base * base + 8.0 * power * s * s));
    const double room = PowerRule::farthest - PowerRule::reach;
    // The sums do not reach so far, or they would overflow.
    const double z_last = m + PowerRule::farthest * s;
    const double log_last = power < 1e-18                ? z_last
                            : 1.0 + power * z_last > 0.0 ? log1p(power * z_last) / power
                                                         : -INFINITY;
    if ((pull > room && base > 0.0) || log_last > PowerRule::log_last) {
        for (int i = 0; i < 3; ++i) out[i * n] = INFINITY;
        return;
    }
    const double last = (pull < room ? pull : room) + PowerRule::reach;
    const double mean = place_nodes(m, s, power, last, at);
    PowerSums of_y;
    power_sums(at, of_y);
    const double variance = of_y.square;
    double rest = variance, of_model = 0.0, power_of_rho = 1.0;
    for (int k = 0; k < n_k; ++k) {
        power_of_rho *= rho;
        rest -= of_y.c[k] * of_y.c[k];
        of_model += of_y.c[k] * of_y.c[k] * power_of_rho;
    }
    rest = rest > 0.0 ? rest : 0.0;
    of_model += rest * power_of_rho * rho;
    of_model = of_model < variance ? of_model : variance;
    const bool finite = variance - variance == 0.0;
    const double stds[] = {__builtin_sqrt(of_model), __builtin_sqrt(variance - of_model)};
    out[0] = mean;
    for (int i = 0; i < 2; ++i) out[(1 + i) * n] = finite ? stds[i] : INFINITY;
}

static Status power_moments(const PowerArgs& args) {
    Arena arena;
    PowerNodes at;
    double** arrays[] = {&at.u, &at.w, &at.y};
    for (double** array : arrays) *array = arena.take<double>(PowerRule::max_nodes);
    if (!arena.reserve()) return Status::no_memory;
    for (double** array : arrays) *array = arena.take<double>(PowerRule::max_nodes);
    for (int64_t i = 0; i < args.n; ++i) {
        if (i % args.poll_every == 0 && !args.keep_going(args.context)) return Status::interrupted;
        power_moments_of(args.m[i], args.epistemic_std[i], args.aleatoric_std[i], args.power, at,
                         args.out + i, args.n);
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

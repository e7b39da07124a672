// The Gamma update [PBP15] Eq. (9)(10), shared by the noise and the prior precision.
// The readable twin is src/probprop/reference/gamma.py, with the derivation.
#pragma once

#include <math.h>

namespace probprop {

struct GammaShapeRate {
    double alpha, beta;
};

// The Gamma with the moments of N(y | m, v + 1/gamma) Gam(gamma | alpha, beta); in gamma.cpp.
GammaShapeRate gamma_moments_by_quadrature(double alpha, double beta, double d2, double v);

namespace {

inline bool is_valid(GammaShapeRate g) {
    return g.alpha > 1.0 && g.beta > 0.0 && g.alpha < HUGE_VAL && g.beta < HUGE_VAL;
}

// Whether the closed form gave a Gamma, and one whose mean is not absurdly small: exactly
// E[gamma] >= alpha/(beta + d2/2), for the residual can at most be all noise.
inline bool is_sound(double alpha, double beta, double d2, GammaShapeRate updated) {
    return is_valid(updated) && updated.alpha * (beta + 0.5 * d2) >= 0.1 * alpha * updated.beta;
}

// log1p and expm1. The arguments are of the order 1/alpha and less, so that but for the first
// points a series does, with an error below the rounding.
constexpr double series_below = 1.0 / 64.0;
inline double log1p_of_small(double x) {
    if (!__builtin_expect(fabs(x) < series_below, 1)) return log1p(x);
    const double x2 = x * x, x4 = x2 * x2;
    const double low = (1.0 - x * (1.0 / 2)) + x2 * (1.0 / 3 - x * (1.0 / 4));
    const double high = (1.0 / 5 - x * (1.0 / 6)) + x2 * (1.0 / 7 - x * (1.0 / 8));
    return x * (low + x4 * (high + x4 * (1.0 / 9)));
}
inline double expm1_of_small(double x) {
    if (!__builtin_expect(fabs(x) < series_below, 1)) return expm1(x);
    const double x2 = x * x, x4 = x2 * x2;
    const double low = (1.0 + x * (1.0 / 2)) + x2 * (1.0 / 6 + x * (1.0 / 24));
    const double high = (1.0 / 120 + x * (1.0 / 720)) + x2 * (1.0 / 5040);
    return x * (low + x4 * high);
}

// How much (alpha, beta) change, from log Z1 - log Z and log Z2 - 2 log Z1 + log Z.
inline GammaShapeRate increments_of(double alpha, double beta, double slope, double curvature) {
    const double E = (alpha + 1.0) * expm1_of_small(curvature);
    const double inv_E = 1.0 / (1.0 + E);
    return {-alpha * E * inv_E, beta * (expm1_of_small(-slope) - E) * inv_E};
}

// How much (alpha, beta) change, d2 = (y - m)^2 and v the variance of the Gaussian.
// Differs from [PBP15] Eq. (9)(10) in form only: log Z2 - 2 log Z1 + log Z is of the order
// 1/alpha^2, so the differences are taken analytically and never between large numbers. The
// variances of Z, Z1, Z2 are n0/(alpha - 1), n1/alpha, n2/(alpha + 1); two divisions serve them
// all.
inline GammaShapeRate gamma_increments(double alpha, double beta, double d2, double v) {
    const double n0 = (alpha - 1.0) * v + beta;
    const double n1 = alpha * v + beta;
    const double n2 = (alpha + 1.0) * v + beta;
    const double a2 = (alpha - 1.0) * (alpha + 1.0);
    const double inv_n01 = 1.0 / (n0 * n1), inv_a3_n2 = 1.0 / (alpha * a2 * n2);
    const double k0 = beta * n1 * inv_n01;  // shares of the noise in the variances of Z and Z1
    const double k1 = beta * n0 * inv_n01;
    const double share = d2 * beta * inv_n01;  // d2/s1 k0/alpha
    const double k0_alpha = k0 * (a2 * n2 * inv_a3_n2);
    // log Z2 - 2 log Z1 + log Z, and log Z1 - log Z.
    const double curvature = share * v * (alpha * a2 * inv_a3_n2) -
                             0.5 * log1p_of_small(k1 * (2.0 - k1) * (alpha * n2 * inv_a3_n2));
    const double slope = -0.5 * log1p_of_small(-k0_alpha) - 0.5 * share;
    return increments_of(alpha, beta, slope, curvature);
}

}  // namespace
}  // namespace probprop

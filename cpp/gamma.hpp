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

// How much (alpha, beta) change, d2 = (y - m)^2 and v the variance of the Gaussian.
// Differs from [PBP15] Eq. (9)(10) in form only: log Z2 - 2 log Z1 + log Z is of the order
// 1/alpha^2, so the differences are taken analytically and never between large numbers.
inline GammaShapeRate gamma_increments(double alpha, double beta, double d2, double v) {
    const double s0 = v + beta / (alpha - 1.0);  // variances of Z, Z1, Z2
    const double s1 = v + beta / alpha;
    const double s2 = v + beta / (alpha + 1.0);
    const double k0 = beta / ((alpha - 1.0) * s0);  // shares of the noise in s0 and s1
    const double k1 = beta / (alpha * s1);
    const double a2 = (alpha - 1.0) * (alpha + 1.0);
    // log Z2 - 2 log Z1 + log Z, and log Z1 - log Z.
    const double curvature = d2 / s0 * v / s2 * k1 / a2 - 0.5 * log1p(k1 * (2.0 - k1) / a2);
    const double slope = -0.5 * log1p(-k0 / alpha) - 0.5 * (d2 / s1) * k0 / alpha;
    const double E = (alpha + 1.0) * expm1(curvature);
    return {-alpha * E / (1.0 + E), beta * (expm1(-slope) - E) / (1.0 + E)};
}

}  // namespace
}  // namespace probprop

// EP refinement of the prior factors: supplement 6 of [PBP15].
// The readable twin is src/probprop/reference/prior.py.
#pragma once

#include <stdint.h>

#include "gamma.hpp"

namespace probprop {

struct SweepResult {
    double alpha, beta;  // of the prior precision lambda
    int64_t n_skipped, n_uninformative;
};

// One sequential sweep in flat weight order: alpha and beta change after every weight.
template <typename T>
SweepResult refine_prior(T* m_w, T* v_w, double* v_hat_nat, double* a_hat_nat, double* b_hat_nat,
                         int64_t n_weights, double alpha, double beta, double informative_ratio) {
    SweepResult result = {alpha, beta, 0, 0};
    for (int64_t i = 0; i < n_weights; ++i) {
        const double m = m_w[i], v = v_w[i];
        const double widened = 1.0 / (1.0 - v * v_hat_nat[i]);  // S(36)
        const double v_cav = widened * v, m_cav = widened * m;
        const double alpha_cav = result.alpha - a_hat_nat[i];  // S(37)
        const double beta_cav = result.beta + b_hat_nat[i];
        if (!(v_cav > 0.0 && v_cav < 1e6 && alpha_cav > 1.0 && beta_cav > 0.0)) {
            ++result.n_skipped;
            continue;
        }
        // Differs from [PBP15] supplement 6: a weight the data say little about is left alone,
        // or in deep networks 1/lambda runs away, or the random means it began with die out.
        if (!(v_cav * (alpha_cav - 1.0) < informative_ratio * beta_cav)) {
            ++result.n_uninformative;
            continue;
        }
        const GammaShapeRate delta =
            gamma_increments(alpha_cav, beta_cav, m_cav * m_cav, v_cav);  // (9)(10)
        const GammaShapeRate updated = {alpha_cav + delta.alpha, beta_cav + delta.beta};
        if (!is_sound(alpha_cav, beta_cav, m_cav * m_cav, updated)) {
            ++result.n_uninformative;
            continue;
        }
        // 1 - v_cav/T without cancellation: with v_prior = beta/(alpha - 1), v_prior/(v_cav +
        // v_prior).
        const double kept = beta_cav / ((alpha_cav - 1.0) * v_cav + beta_cav);
        m_w[i] = static_cast<T>(m_cav * kept);  // (6)(7) with Z of (11)
        v_w[i] = static_cast<T>(v_cav * kept);
        v_hat_nat[i] = (alpha_cav - 1.0) / beta_cav;  // S(38); the factor's mean stays exactly zero
        a_hat_nat[i] = delta.alpha;                   // S(39)
        b_hat_nat[i] = -delta.beta;
        result.alpha = updated.alpha;
        result.beta = updated.beta;
    }
    return result;
}

}  // namespace probprop

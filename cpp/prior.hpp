// EP refinement of the prior factors: supplement 6 of [PBP15].
// The readable twin is src/probprop/reference/prior.py.
#pragma once

#include <math.h>
#include <stdint.h>

#include <vector>

#include "gamma.hpp"

namespace probprop {

// The approximate posterior of the weights and its prior factors, flat and in the order of a sweep.
template <typename T>
struct Factors {
    T *m_w, *v_w;
    double *v_hat_nat, *a_hat_nat, *b_hat_nat;
};

// Which weights are refined, and which share a prior precision.
struct SweepArgs {
    const int* sizes;  // (n_layers + 1,)
    int n_layers;
    const bool* due;   // of each input of the first layer: whether it is refined; null: all are
    const int* group;  // of each input of the first layer: the precision that its weights share;
    int n_groups;      // the bias and each later layer have their own. Null: all weights share one
    double informative_ratio;
};

struct SweepResult {
    double alpha, beta;  // of the prior precision lambda, if there is one
    int64_t n_skipped, n_uninformative;
};

// Refine factor i, whose precision has the Gamma `lambda`. beta_cav/(alpha_cav - 1) is bounded by
// `largest_variance`.
template <typename T>
inline void refine_factor(const Factors<T>& f, int64_t i, double largest_variance,
                          double informative_ratio, GammaShapeRate& lambda, SweepResult& result) {
    const double m = f.m_w[i], v = f.v_w[i];
    const double widened = 1.0 / (1.0 - v * f.v_hat_nat[i]);  // S(36)
    const double v_cav = widened * v, m_cav = widened * m;
    const double alpha_cav = lambda.alpha - f.a_hat_nat[i];  // S(37)
    const double bound = largest_variance * (alpha_cav - 1.0);
    double beta_cav = lambda.beta + f.b_hat_nat[i];
    if (bound < beta_cav) beta_cav = bound;
    if (!(v_cav > 0.0 && v_cav < 1e6 && alpha_cav > 1.0 && beta_cav > 0.0)) {
        ++result.n_skipped;
        return;
    }
    // Differs from [PBP15] supplement 6: a weight the data say little about is left alone,
    // or in deep networks 1/lambda runs away, or the random means it began with die out.
    if (!(v_cav * (alpha_cav - 1.0) < informative_ratio * beta_cav)) {
        ++result.n_uninformative;
        return;
    }
    const GammaShapeRate delta =
        gamma_increments(alpha_cav, beta_cav, m_cav * m_cav, v_cav);  // (9)(10)
    const GammaShapeRate updated = {alpha_cav + delta.alpha, beta_cav + delta.beta};
    if (!is_sound(alpha_cav, beta_cav, m_cav * m_cav, updated)) {
        ++result.n_uninformative;
        return;
    }
    // 1 - v_cav/T without cancellation: with v_prior = beta/(alpha - 1), v_prior/(v_cav + v_prior).
    const double kept = beta_cav / ((alpha_cav - 1.0) * v_cav + beta_cav);
    f.m_w[i] = static_cast<T>(m_cav * kept);  // (6)(7) with Z of (11)
    f.v_w[i] = static_cast<T>(v_cav * kept);
    f.v_hat_nat[i] = (alpha_cav - 1.0) / beta_cav;  // S(38); the factor's mean stays exactly zero
    f.a_hat_nat[i] = delta.alpha;                   // S(39)
    f.b_hat_nat[i] = -delta.beta;
    lambda = updated;
}

// Call visit(flat, input, group) for all weights in the order of a sweep; there is a group for
// each column of the inputs, one for the bias, and one per later layer.
template <typename Visit>
inline void each_factor(const SweepArgs& args, Visit visit) {
    int64_t i = 0;
    for (int l = 0; l < args.n_layers; ++l) {
        const int n_in = args.sizes[l];
        for (int unit = 0; unit < args.sizes[l + 1]; ++unit)
            for (int j = 0; j <= n_in; ++j, ++i)
                visit(i, l == 0 ? j : -1, l == 0 && j < n_in ? args.group[j] : args.n_groups + l);
    }
}

// One precision per group: Gamma(alpha, beta) is its hyperprior, and its pair is that times the
// Gamma parts of the group's factors, so that there is no further state.
template <typename T>
SweepResult refine_grouped(const Factors<T>& f, double alpha, double beta, const SweepArgs& args) {
    SweepResult result = {alpha, beta, 0, 0};
    const size_t n = static_cast<size_t>(args.n_groups + args.n_layers);
    std::vector<GammaShapeRate> lambda(n, {alpha, beta});
    each_factor(args, [&](int64_t i, int, int g) {
        lambda[size_t(g)].alpha += f.a_hat_nat[i];
        lambda[size_t(g)].beta -= f.b_hat_nat[i];
    });
    // A group's share in the prior variance of a pre-activation is at most 1.
    const int n_in = args.sizes[0];
    std::vector<double> largest(n, HUGE_VAL), n_inputs(n, 0.0);
    for (int j = 0; j < n_in; ++j) n_inputs[size_t(args.group[j])] += 1.0;
    n_inputs[size_t(args.n_groups)] = 1.0;
    for (int g = 0; g <= args.n_groups; ++g)
        largest[size_t(g)] = (n_in + 1.0) / n_inputs[size_t(g)];
    each_factor(args, [&](int64_t i, int input, int g) {
        if (args.due != nullptr && input >= 0 && input < n_in && !args.due[input]) return;
        refine_factor(f, i, largest[size_t(g)], args.informative_ratio, lambda[size_t(g)], result);
    });
    return result;
}

// One sequential sweep in flat weight order: alpha and beta change after every weight.
template <typename T>
SweepResult refine_prior(const Factors<T>& f, double alpha, double beta, const SweepArgs& args) {
    if (args.group != nullptr) return refine_grouped(f, alpha, beta, args);
    SweepResult result = {alpha, beta, 0, 0};
    GammaShapeRate lambda = {alpha, beta};
    const auto refine = [&](int64_t i) {
        refine_factor(f, i, HUGE_VAL, args.informative_ratio, lambda, result);
    };
    int64_t i = 0, n_weights = 0;
    for (int l = 0; l < args.n_layers; ++l)
        n_weights += int64_t(args.sizes[l] + 1) * args.sizes[l + 1];
    for (int unit = 0; args.due != nullptr && unit < args.sizes[1]; ++unit) {
        for (int j = 0; j < args.sizes[0]; ++j, ++i)
            if (args.due[j]) refine(i);
        refine(i++);  // the bias
    }
    for (; i < n_weights; ++i) refine(i);
    result.alpha = lambda.alpha;
    result.beta = lambda.beta;
    return result;
}

}  // namespace probprop

// One ADF pass: forward, log Z, backward, update, point after point ([PBP15] section 3.3).
// The readable twin is src/probprop/reference/adf.py.
#pragma once

#include "backward.hpp"
#include "gamma.hpp"
#include "kernel.hpp"
#include "likelihood.hpp"
#include "memory.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The noise Gamma (9)(10), by quadrature where the closed form is not sound.
PROBPROP_INLINE int64_t update_noise(double& alpha, double& beta, double d2, double v) {
    const GammaShapeRate delta = gamma_increments(alpha, beta, d2, v);
    GammaShapeRate updated = {alpha + delta.alpha, beta + delta.beta};
    const bool closed_form = PROBPROP_LIKELY(is_sound(alpha, beta, d2, updated));
    if (!closed_form) updated = gamma_moments_by_quadrature(alpha, beta, d2, v);
    alpha = updated.alpha;
    beta = updated.beta;
    return closed_form ? 0 : 1;
}

// log Z of a point, Eq. (12) or that of another likelihood; its derivatives by the moments of the
// outputs are left in d_m_out and d_v_out. Not finite: the point cannot be absorbed.
template <typename T, Likelihood likelihood>
PROBPROP_INLINE double evidence(Network<T>& net, const double* y, const double* alpha,
                                const double* beta) {
    if constexpr (likelihood == Likelihood::probit)
        return log_Z_probit(net.m_out, net.v_out, y, net.n_out, net.d_m_out, net.d_v_out);
    if constexpr (likelihood == Likelihood::multinomial)
        return log_Z_multinomial(net.m_out, net.v_out, int(y[0]), net.n_out, net.d_m_out,
                                 net.d_v_out, net.scratch);
    bool finite = true;
    for (int k = 0; k < net.n_out; ++k) {
        const double d = y[k] - net.m_out[k];
        const double precision = alpha[k] / beta[k];  // the quadrature works in units of the noise
        finite &=
            __builtin_isfinite(d * d * precision) && __builtin_isfinite(net.v_out[k] * precision);
        net.scratch[k] = beta[k] / (alpha[k] - 1.0);
    }
    if (!PROBPROP_LIKELY(finite)) return __builtin_nan("");
    return log_Z_gaussian(net.m_out, net.v_out, y, net.scratch, net.n_out, net.d_m_out,
                          net.d_v_out);
}

template <typename T, Update update, Likelihood likelihood>
static Status absorb_all(const AdfArgs<T>& args, AdfResult& result) {
    Arena arena;
    Network<T> net = allocate<T>(arena, args.sizes, args.n_layers);
    if (arena.base == nullptr) return Status::no_memory;
    copy_weights<T, true>(net, args.m_w, args.v_w);
    const MemoryArgs<T>& memory = args.memory;
    const bool bounded = memory.v_hat_nat != nullptr;
    Arena prior_arena;
    PriorPrecisions<T> prior = {};
    if (bounded) {
        prior = allocate(prior_arena, net, memory.v_hat_nat);
        if (prior_arena.base == nullptr) return Status::no_memory;
    }
    const FlushDenormals flush;

    const int n_features = net.n_features;
    const int y_columns = likelihood == Likelihood::multinomial ? 1 : net.n_out;
    const T x_scale = T(1) / T(__builtin_sqrt(double(n_features + 1)));
    const bool certain = args.X_var == nullptr;
    // Shape and rate of the noise precisions; another likelihood has one pair, which stays.
    const int n_noise = likelihood == Likelihood::gaussian ? net.n_out : 1;
    double *alpha = args.alpha, *beta = args.beta;
    result = AdfResult{};

    const auto row_of = [&](int64_t t) { return args.X + args.order[t] * n_features; };
    if (certain && args.n_points > 0) {
        set_point(row_of(0), n_features, x_scale, net.x_next, net.x2_next);
        if (net.n_hidden > 0) first_layer<T, Update::none>(net);
    }
    for (int64_t t = 0; t < args.n_points; ++t) {
        if (t % args.poll_every == 0 && !args.keep_going(args.context)) return Status::interrupted;
        if (t + 3 < args.n_points) {
            const char* row = reinterpret_cast<const char*>(row_of(t + 3));
            for (size_t byte = 0; byte < static_cast<size_t>(n_features) * sizeof(T); byte += 64)
                __builtin_prefetch(row + byte);
        }
        if (bounded && t % memory.every == 0) {
            const int64_t left = args.n_points - t;
            const double share =
                share_of(left < memory.every ? left : memory.every, memory.capacity);
            give_back(net, prior, T(share));
            for (int k = 0; k < n_noise; ++k) {
                alpha[k] = (1.0 - share) * alpha[k] + share * memory.alpha;
                beta[k] = (1.0 - share) * beta[k] + share * memory.beta;
            }
            if (certain && net.n_hidden > 0)
                first_layer<T, Update::none>(net);  // with the new weights
        }
        if (!certain) {
            const T* variances = args.X_var + args.order[t] * n_features;
            uncertain_first_layer(net, row_of(t), variances, x_scale);
        }
        swap(net.x, net.x_next);
        finish_forward<T, true>(net, net.x2_next, net.m_out, net.v_out);
        const double* y = args.y + args.order[t] * y_columns;
        const double log_Z = evidence<T, likelihood>(net, y, alpha, beta);
        if (PROBPROP_LIKELY(__builtin_isfinite(log_Z))) {
            result.log_Z_sum += log_Z;
            result.n_undone += output_backward<T, update>(net, net.x2_next);
            for (int l = net.n_hidden - 1; l > 0; --l) {
                through_activation<T, false>(net, net.hidden[l]);
                result.n_undone += middle_backward<T, update>(net, l, net.x2_next);
            }
            if (net.n_hidden > 0 && certain) {
                through_activation<T, true>(net, net.hidden[0]);
            } else if (net.n_hidden > 0) {
                through_activation<T, false>(net, net.hidden[0]);
                result.n_undone += middle_backward<T, update>(net, 0, net.x2_next);
            }
            if constexpr (likelihood == Likelihood::gaussian)
                for (int k = 0; k < n_noise; ++k) {
                    const double d = y[k] - net.m_out[k];
                    result.n_guarded += update_noise(alpha[k], beta[k], d * d, net.v_out[k]);
                }
        } else {  // the point is left out whole
            result.n_skipped += 1;
            if (net.n_hidden > 0 && certain) {
                const size_t bytes = static_cast<size_t>(net.hidden[0].n_vec) * sizeof(Vec<T>);
                memset(net.hidden[0].d_m, 0, bytes);
                memset(net.hidden[0].d_v, 0, bytes);
            }
        }

        // After the last point x_next is stale: the sums of that forward are not used.
        if (certain && t + 1 < args.n_points)
            set_point(row_of(t + 1), n_features, x_scale, net.x_next, net.x2_next);
        if (certain && net.n_hidden > 0) result.n_undone += first_layer<T, update>(net);
    }
    copy_weights<T, false>(net, args.m_w, args.v_w);
    return Status::ok;
}

template <typename T>
static Status adf_pass(const AdfArgs<T>& args, AdfResult& result) {
    constexpr Update both = Update::mean_and_variance;
    switch (args.likelihood) {
        case Likelihood::probit: return absorb_all<T, both, Likelihood::probit>(args, result);
        case Likelihood::multinomial:
            return absorb_all<T, both, Likelihood::multinomial>(args, result);
        default: break;
    }
    return args.update_variance ? absorb_all<T, both, Likelihood::gaussian>(args, result)
                                : absorb_all<T, Update::mean, Likelihood::gaussian>(args, result);
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

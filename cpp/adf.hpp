// One ADF pass: forward, log Z, backward, update, one point at a time ([PBP15] section 3.3).
// The readable twin is src/probprop/reference/adf.py.
#pragma once

#include "backward.hpp"
#include "kernel.hpp"
#include "likelihoods/list.hpp"
#include "points.hpp"
#include "tempering.hpp"
#include "watch.hpp"
#include "weighting.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The pass for one likelihood L, a struct as described in likelihoods/list.hpp.
template <typename T, typename Activation, typename L>
static Status update_all(const AdfArgs<T>& args, AdfResult& result) {
    Arena arena;
    const int n_out = args.sizes[args.n_layers];
    const size_t n_scratch = L::n_scratch(n_out) + power_scratch<L>(n_out);
    Network<T> net =
        allocate<T>(arena, args.sizes, args.n_layers, is_listed(args.X) && args.n_layers > 1,
                    n_scratch + static_cast<size_t>(L::n_targets(n_out)) + 3 * size_t(n_out));
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
    const T x_scale = T(1) / T(__builtin_sqrt(double(n_features + 1)));
    const bool certain = args.X_var == nullptr, weighted = is_weighted(args);
    const int n_noise = L::n_noise(n_out);
    double* y = net.scratch + n_scratch;  // the targets of the point
    double* tail = y + L::n_targets(n_out);
    double *d_level = tail + n_out, *d_tail = d_level + n_out;
    for (int k = 0; k < n_out; ++k) tail[k] = args.tail == nullptr ? 0.0 : args.tail[k];
    for (int k = 0; k < n_out; ++k) d_tail[k] = 0.0;
    const Outputs out = {n_out,       net.m_out, net.v_out, net.d_m_out,
                         net.d_v_out, tail,      d_level,   d_tail};
    double *alpha = args.alpha, *beta = args.beta;  // shape and rate of the noise precisions
    result = AdfResult{};

    const ReadPoint<T> read = reader_of<T>(args.X, args.X_scaling);
    const bool listed = net.next.input != nullptr, lazy = bounded && listed;
    Returns returns = {0, memory.every, 0, memory.capacity};
    if (lazy) tabulate_shares(prior, returns, args.n_points / memory.every);
    const auto set_next = [&](int64_t t) {
        return read(args.X, args.X_scaling, point_at(args.order, t), x_scale, net.next);
    };
    if (certain && args.n_points > 0) {
        if (!set_next(0)) return Status::too_large;
        if (net.n_hidden > 0) first_layer<T, Weights::kept>(net);
    }
    for (int64_t t = 0; t < args.n_points; ++t) {
        if ((t + 1) % args.poll_every == 0 && !args.keep_going(args.context))
            return Status::interrupted;
        if (t + 6 < args.n_points) prefetch_begin(args.X, point_at(args.order, t + 6));
        if (t + 3 < args.n_points) {
            const int64_t soon = point_at(args.order, t + 3);
            prefetch_row(args.X, soon);
            prefetch_row(args.y, soon);
        }
        if (bounded && t % memory.every == 0) {
            const int64_t left = args.n_points - t;
            const int64_t n_now = left < memory.every ? left : memory.every;
            const double share = share_of(n_now, memory.capacity);
            temper(net, prior, T(share), lazy ? 1 : 0);
            ++returns.n;
            returns.n_missing = memory.every - n_now;
            if (lazy) temper_next(net, prior, returns, 0);
            for (int k = 0; k < n_noise; ++k) {
                alpha[k] = (1.0 - share) * alpha[k] + share * memory.alpha;
                beta[k] = (1.0 - share) * beta[k] + share * memory.beta;
            }
            if (certain && net.n_hidden > 0)
                first_layer<T, Weights::kept>(net);  // with the new weights
        }
        const int64_t now = point_at(args.order, t);
        if (!certain) {
            if (!set_next(t)) return Status::too_large;
            uncertain_first_layer(net, args.X_var + now * n_features, x_scale);
        }
        swap(net.point, net.next);
        // After the last point `next` is stale: the sums of its forward are not used.
        const bool more = certain && t + 1 < args.n_points;
        if (more) {
            if (!set_next(t + 1)) return Status::too_large;
            if (listed) look_ahead(net, prior, bounded, args.X.indptr != nullptr);
        }
        finish_forward<T, Activation, true>(net, net.m_out, net.v_out);
        // While the likelihood waits for its divisions; the rows of this point are up to date.
        if (lazy && more) temper_next(net, prior, returns, net.n_common);
        read_targets(args.y, args.y_scaling, now, y);
        const double log_Z = PROBPROP_LIKELY(!weighted)
                                 ? L::evidence(out, y, alpha, beta, net.scratch)
                                 : weighted_evidence<L>(args, now, net.m_out, net.v_out, out, y,
                                                        alpha, beta, net.scratch);
        const bool finite = __builtin_isfinite(log_Z);
        if (args.watched != nullptr)
            record(out, y, alpha, beta, finite, args.watched + now * 3 * n_out);
        if (PROBPROP_LIKELY(finite)) {
            result.log_Z_sum += log_Z;
            if (args.d_tail_sum != nullptr)
                for (int k = 0; k < n_out; ++k) args.d_tail_sum[k] += d_tail[k];
            result.n_guarded += L::learn_noise(out, y, alpha, beta);
            const bool shallow = certain && net.n_hidden == 1;
            result.n_undone += shallow ? output_backward<T, Weights::updated, Below::first>(net)
                                       : output_backward<T, Weights::updated>(net);
            for (int l = net.n_hidden - 1; l > 0; --l) {
                through_activation<T, false>(net, net.hidden[l]);
                result.n_undone += middle_backward<T, Weights::updated>(net, l);
            }
            if (net.n_hidden > 1 && certain) {
                through_activation<T, true>(net, net.hidden[0]);
            } else if (net.n_hidden > 0 && !certain) {
                through_activation<T, false>(net, net.hidden[0]);
                result.n_undone += middle_backward<T, Weights::updated>(net, 0);
            }
        } else {  // the whole point is skipped
            result.n_skipped += 1;
            if (net.n_hidden > 0 && certain) {
                const size_t bytes = static_cast<size_t>(net.hidden[0].n_vec) * sizeof(Vec<T>);
                memset(net.hidden[0].d_m, 0, bytes);
                memset(net.hidden[0].d_v, 0, bytes);
            }
        }

        if (certain && net.n_hidden > 0) result.n_undone += first_layer<T, Weights::updated>(net);
    }
    for (int j = 0; lazy && j <= n_features; ++j) temper_input(net, prior, j, returns);
    copy_weights<T, false>(net, args.m_w, args.v_w);
    return Status::ok;
}

template <typename T, typename Activation, typename... L>
static Status pass_of(LikelihoodList<L...>, const AdfArgs<T>& args, AdfResult& result) {
    using Pass = Status (*)(const AdfArgs<T>&, AdfResult&);
    constexpr Pass passes[] = {update_all<T, Activation, L>...};
    return passes[args.likelihood](args, result);
}

template <typename T, typename Activation>
static Status adf_pass(const AdfArgs<T>& args, AdfResult& result) {
    return pass_of<T, Activation>(Likelihoods{}, args, result);
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// The forward pass over many rows: mean and variance of the network's output, without noise.
#pragma once

#include "backward.hpp"
#include "kernel.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// Row i as the point in net.x (its squares stay in net.x2_next), and the moments it gives.
template <typename T, typename Activation, bool with_derivatives>
PROBPROP_INLINE void forward_row(Network<T>& net, const PredictArgs<T>& args, int64_t i) {
    const T x_scale = T(1) / T(__builtin_sqrt(double(net.n_features + 1)));
    const T* row = args.X + i * net.n_features;
    if (args.X_var != nullptr) {
        uncertain_first_layer(net, row, args.X_var + i * net.n_features, x_scale);
    } else {
        set_point(row, net.n_features, x_scale, net.x_next, net.x2_next);
        if (net.n_hidden > 0) first_layer<T, Weights::kept>(net);
    }
    swap(net.x, net.x_next);
    finish_forward<T, Activation, with_derivatives>(net, net.x2_next, args.m + i * net.n_out,
                                                    args.v + i * net.n_out);
}

template <typename T, typename Activation>
static Status predict(const PredictArgs<T>& args) {
    Arena arena;
    Network<T> net = allocate<T>(arena, args.sizes, args.n_layers);
    if (arena.base == nullptr) return Status::no_memory;
    copy_weights<T, true>(net, const_cast<T*>(args.m_w), const_cast<T*>(args.v_w));
    const FlushDenormals flush;
    for (int64_t i = 0; i < args.n_rows; ++i) {
        if (i % args.poll_every == 0 && !args.keep_going(args.context)) return Status::interrupted;
        forward_row<T, Activation, false>(net, args, i);
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

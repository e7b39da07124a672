// The forward pass over many rows: mean and variance of the network's output, without noise.
#pragma once

#include "backward.hpp"
#include "kernel.hpp"
#include "points.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// Row i as net.point, and the moments it gives; false where it is too large.
template <typename T, typename Activation, bool with_derivatives>
PROBPROP_INLINE bool forward_row(Network<T>& net, const PredictArgs<T>& args, ReadPoint<T> read,
                                 int64_t i) {
    const T x_scale = T(1) / T(__builtin_sqrt(double(net.n_features + 1)));
    const bool fits = read(args.X, args.X_scaling, i, x_scale, net.next);
    if (args.X_var != nullptr)
        uncertain_first_layer(net, args.X_var + i * net.n_features, x_scale);
    else if (net.n_hidden > 0)
        first_layer<T, Weights::kept>(net);
    swap(net.point, net.next);
    finish_forward<T, Activation, with_derivatives>(net, args.m + i * net.n_out,
                                                    args.v + i * net.n_out);
    return fits;
}

template <typename T, typename Activation>
static Status predict(const PredictArgs<T>& args) {
    Arena arena;
    Network<T> net =
        allocate<T>(arena, args.sizes, args.n_layers, is_listed(args.X) && args.n_layers > 1);
    if (arena.base == nullptr) return Status::no_memory;
    copy_weights<T, true>(net, const_cast<T*>(args.m_w), const_cast<T*>(args.v_w));
    const ReadPoint<T> read = reader_of<T>(args.X, args.X_scaling);
    const FlushDenormals flush;
    for (int64_t i = 0; i < args.X.X.n_rows; ++i) {
        if ((i + 1) % args.poll_every == 0 && !args.keep_going(args.context))
            return Status::interrupted;
        if (!forward_row<T, Activation, false>(net, args, read, i)) return Status::too_large;
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

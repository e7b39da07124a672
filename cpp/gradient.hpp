// The gradient of the output's mean and variance with respect to the features, row by row.
// The readable twin is src/probprop/reference/adf.py.
#pragma once

#include "predict.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// Take a gradient from the output's moments, where it is d_m and d_v, to net.point.
// It makes the steps of an ADF pass without its updates, down to the first layer. d_x is by the
// standardized inputs or, with a basis, by the columns of row i in their units.
template <typename T>
static void to_features(Network<T>& net, const PredictArgs<T>& args, int64_t i, double d_m,
                        double d_v, double* d_x) {
    const Rows& rows = args.X;
    const double* scale = args.X_scaling.scale;
    net.d_m_out[0] = d_m;
    net.d_v_out[0] = d_v;
    output_backward<T, Weights::kept>(net);
    for (int l = net.n_hidden - 1; l >= 0; --l) {
        through_activation<T, false>(net, net.hidden[l]);
        middle_backward<T, Weights::kept>(net, l);
    }
    if (rows.basis == nullptr) {
        d_x += i * net.n_features;
        for (int j = 0; j < net.n_features; ++j) d_x[j] = double(net.d_z_m[j]);
        return;
    }
    d_x += i * rows.basis->n_columns;
    for (int c = 0; c < rows.basis->n_columns; ++c) d_x[c] = 0.0;
    each_input(rows, i, [&](int input, double, int column, double slope) {
        const double by = scale == nullptr ? slope : slope / scale[input];
        d_x[column] += by * double(net.d_z_m[input]);
    });
}

template <typename T, typename Activation>
static Status gradient(const GradientArgs<T>& args) {
    const PredictArgs<T>& rows = args.predict;
    Arena arena;
    Network<T> net = allocate<T>(arena, rows.sizes, rows.n_layers, false);  // by all inputs
    if (arena.base == nullptr) return Status::no_memory;
    copy_weights<T, true>(net, const_cast<T*>(rows.m_w), const_cast<T*>(rows.v_w));
    const ReadPoint<T> read = reader_of<T>(rows.X, rows.X_scaling);
    const FlushDenormals flush;
    for (int64_t i = 0; i < rows.X.X.n_rows; ++i) {
        if ((i + 1) % rows.poll_every == 0 && !rows.keep_going(rows.context))
            return Status::interrupted;
        if (!forward_row<T, Activation, true>(net, rows, read, i)) return Status::too_large;
        to_features(net, rows, i, 1.0, 0.0, args.dm_dx);
        to_features(net, rows, i, 0.0, 1.0, args.dv_dx);
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

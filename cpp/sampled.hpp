// A network whose weights were drawn from q: an ordinary forward pass over many rows, and the
// derivatives of its output by the features. The readable twin is
// src/probprop/reference/sampled.py.
//
// The vectors run over rows, so that nothing is padded and the weights are read as they lie, from
// the inputs to the output and back. Every lane computes what it would alone: what a row gives does
// not depend on the other rows of its batch.
#pragma once

#include "arena.hpp"
#include "kernel.hpp"
#include "points.hpp"
#include "simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

using F64 = Vec<double>;

#if defined(__AVX512F__)
constexpr int most_vectors = 4;  // of rows; with 4 units that makes 16 sums in 32 registers
#else
constexpr int most_vectors = 2;
#endif
constexpr int units_at_once = 4;

// What is done with a sum; `z` is the previous value in its place.
struct Plain {
    PROBPROP_INLINE F64 of(F64 sum, F64) { return sum; }
};
struct Rectified {
    PROBPROP_INLINE F64 of(F64 sum, F64) { return sum < 0.0 ? F64{} : sum; }  // NaN stays
};
struct WhereOn {
    PROBPROP_INLINE F64 of(F64 sum, F64 z) { return z > 0.0 ? sum : F64{}; }
};

// A matrix of weights, as it lies or transposed: entry (u, k) is w[u * per_u + k * per_k].
struct WeightMatrix {
    const double* w;
    int64_t per_u, per_k;
};

// out[u] = scale * (bias[u] + sum over k of matrix(u, k) * z[k]) for n_units units from `first` on;
// z and out have a batch of n_vec vectors of rows for every k and u.
template <typename Finish, int n_vec, int n_units>
PROBPROP_INLINE void sum_units(const WeightMatrix& matrix, int first, int n_sum, const double* bias,
                               double scale, const double* z, double* out) {
    constexpr int lanes = Simd<double>::lanes;
    const double* w = matrix.w + first * matrix.per_u;
    F64 sum[n_units][n_vec] = {};
    if (bias != nullptr)
        for (int u = 0; u < n_units; ++u)
            for (int i = 0; i < n_vec; ++i)
                sum[u][i] = splat<double>(bias[(first + u) * matrix.per_u]);
    for (int k = 0; k < n_sum; ++k, w += matrix.per_k, z += n_vec * lanes) {
        __builtin_prefetch(w + 8 * matrix.per_k);  // transposed, every step is to another page
        PROBPROP_UNROLL
        for (int u = 0; u < n_units; ++u) {
            const double weight = w[u * matrix.per_u];
            PROBPROP_UNROLL
            for (int i = 0; i < n_vec; ++i) sum[u][i] += weight * load(z + i * lanes);
        }
    }
    out += first * n_vec * lanes;
    for (int u = 0; u < n_units; ++u)
        for (int i = 0; i < n_vec; ++i, out += lanes)
            store(out, Finish::of(sum[u][i] * scale, load(out)));
}

template <typename Finish, int n_vec>
static void sum_all(const WeightMatrix& matrix, int n_units, int n_sum, const double* bias,
                    double scale, const double* z, double* out) {
    int u = 0;
    for (; u + units_at_once <= n_units; u += units_at_once)
        sum_units<Finish, n_vec, units_at_once>(matrix, u, n_sum, bias, scale, z, out);
    for (; u < n_units; ++u) sum_units<Finish, n_vec, 1>(matrix, u, n_sum, bias, scale, z, out);
}

struct SampledLayer {
    int n_in, n_out;
    double scale;          // 1/sqrt(n_in + 1)
    const double* w;       // (n_out, n_in + 1), bias last
    double *z_in, *z_out;  // of a batch: the inputs, (n_in, rows), and the outputs
};

// [PBP15] section 2: a = (w z + bias)/sqrt(n); a hidden unit gives the larger of a and 0.
template <typename Finish, int n_vec>
PROBPROP_INLINE void forward(const SampledLayer& l) {
    const WeightMatrix matrix = {l.w, l.n_in + 1, 1};
    sum_all<Finish, n_vec>(matrix, l.n_out, l.n_in, l.w + l.n_in, l.scale, l.z_in, l.z_out);
}

// From derivatives by the activations, in z_out, to derivatives by the inputs, into z_in.
template <typename Finish, int n_vec>
PROBPROP_INLINE void backward(const SampledLayer& l) {
    const WeightMatrix transposed = {l.w, 1, l.n_in + 1};
    sum_all<Finish, n_vec>(transposed, l.n_in, l.n_out, nullptr, l.scale, l.z_out, l.z_in);
}

struct SampledNetwork {
    const SampledArgs& args;
    SampledLayer* layers;
    double* x;  // the features of a batch, standardized, (n_features, rows)
    double* f;  // the output of a batch
};

// Lay the network out in the arena (which only measures while its base is null).
static SampledNetwork lay_out_sampled(Arena& arena, const SampledArgs& args) {
    constexpr size_t lanes = Simd<double>::lanes, full = most_vectors * lanes;
    const size_t batch = static_cast<size_t>(args.X.X.n_rows) < full ? lanes : full;
    const size_t n_layers = static_cast<size_t>(args.n_layers);
    SampledNetwork net = {args, arena.take<SampledLayer>(n_layers), nullptr, nullptr};
    net.x = net.f = arena.take<double>(static_cast<size_t>(args.sizes[0]) * batch);
    for (int l = 0; l < args.n_layers; ++l) {
        const int n_in = args.sizes[l], n_out = args.sizes[l + 1];
        double* z_out = arena.take<double>(static_cast<size_t>(n_out) * batch);
        if (arena.base != nullptr)
            net.layers[l] = {n_in,      n_out, 1.0 / __builtin_sqrt(n_in + 1.0),
                             args.w[l], net.f, z_out};
        net.f = z_out;
    }
    return net;
}

// Standardize the rows from `first` on, transposed; lanes without a row repeat the last one.
template <typename T, int n_vec>
PROBPROP_INLINE void set_rows(const SampledNetwork& net, int64_t first) {
    constexpr int lanes = Simd<double>::lanes, batch = n_vec * lanes;
    const SampledArgs& args = net.args;
    const Matrix& X = args.X.X;
    const int64_t last = X.n_rows - 1;
    for (int r = 0; r < batch; ++r) {
        const T* row =
            static_cast<const T*>(X.data) + (first + r < last ? first + r : last) * X.row_stride;
        for (int j = 0; j < args.sizes[0]; ++j)
            net.x[j * batch + r] = double(row[j * X.column_stride]);
    }
    for (int j = 0; j < args.sizes[0]; ++j)
        for (int i = 0; i < n_vec; ++i) {
            double* at = net.x + j * batch + i * lanes;
            store(at, (load(at) - args.x_mean[j]) / args.x_scale[j]);
        }
}

// The first layer of rows of which only inputs that are not 0 are looked at; where it is not the
// last, its units give the larger of a and 0.
template <int n_vec>
static void forward_listed(const SampledNetwork& net, int64_t first) {
    constexpr int batch = n_vec * Simd<double>::lanes;
    const SampledArgs& args = net.args;
    const SampledLayer& l = net.layers[0];
    const int64_t last = args.X.X.n_rows - 1, per_unit = l.n_in + 1;
    for (int r = 0; r < batch; ++r) {
        for (int u = 0; u < l.n_out; ++u) l.z_out[u * batch + r] = l.w[u * per_unit + l.n_in];
        const auto add = [&](int j, double value, int, double) {
            const double x = value / args.x_scale[j];
            for (int u = 0; u < l.n_out; ++u) l.z_out[u * batch + r] += l.w[u * per_unit + j] * x;
        };
        each_input(args.X, first + r < last ? first + r : last, add);
    }
    for (int i = 0; i < l.n_out * batch; ++i) {
        const double a = l.z_out[i] * l.scale;
        l.z_out[i] = args.n_layers > 1 && a < 0.0 ? 0.0 : a;  // NaN stays
    }
}

// Write the derivatives of row `row`, which are in lane r of net.x.
PROBPROP_INLINE void store_gradient(const SampledNetwork& net, int64_t row, int r, int batch) {
    const SampledArgs& args = net.args;
    if (args.X.basis == nullptr) {
        double* df_dx = args.df_dx + row * args.sizes[0];
        for (int j = 0; j < args.sizes[0]; ++j)
            df_dx[j] = net.x[j * batch + r] / args.x_scale[j] * args.y_scale;
        return;
    }
    const int n_columns = args.X.basis->n_columns;
    double* df_dx = args.df_dx + row * n_columns;
    for (int c = 0; c < n_columns; ++c) df_dx[c] = 0.0;
    each_input(args.X, row, [&](int input, double, int column, double slope) {
        df_dx[column] += slope / args.x_scale[input] * net.x[input * batch + r] * args.y_scale;
    });
}

// The rows from `first` on, as many as there are in a batch.
template <int n_vec>
static void sampled_batch(const SampledNetwork& net, int64_t first) {
    constexpr int lanes = Simd<double>::lanes, batch = n_vec * lanes;
    const SampledArgs& args = net.args;
    const bool listed = is_listed(args.X);
    const int64_t left = args.X.X.n_rows - first;
    const int n = left < batch ? int(left) : batch, top = args.n_layers - 1;
    if (listed)
        forward_listed<n_vec>(net, first);
    else if (args.X.X.single)
        set_rows<float, n_vec>(net, first);
    else
        set_rows<double, n_vec>(net, first);
    for (int l = listed ? 1 : 0; l < top; ++l) forward<Rectified, n_vec>(net.layers[l]);
    if (!listed || top > 0) forward<Plain, n_vec>(net.layers[top]);
    for (int r = 0; r < n; ++r) args.f[first + r] = net.f[r] * args.y_scale + args.y_mean;
    if (args.df_dx == nullptr) return;

    for (int r = 0; r < batch; ++r) net.f[r] = 1.0;  // df/df
    for (int l = top; l > 0; --l) backward<WhereOn, n_vec>(net.layers[l]);
    backward<Plain, n_vec>(net.layers[0]);
    for (int r = 0; r < n; ++r) store_gradient(net, first + r, r, batch);
}

// Subnormal numbers are not flushed here: X comes in its own units, which may be that small.
static Status sampled(const SampledArgs& args) {
    Arena arena;
    lay_out_sampled(arena, args);  // measures
    if (!arena.reserve()) return Status::no_memory;
    const SampledNetwork net = lay_out_sampled(arena, args);
    constexpr int lanes = Simd<double>::lanes;
    int64_t row = 0;
    const int64_t n_rows = args.X.X.n_rows;
    for (; row + most_vectors * lanes <= n_rows; row += most_vectors * lanes)
        sampled_batch<most_vectors>(net, row);
    for (; row < n_rows; row += lanes) sampled_batch<1>(net, row);
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

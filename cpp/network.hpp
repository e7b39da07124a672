// The weights of one network in the layout the kernels want.
//
// A hidden layer of n_out units is cut into blocks of at most `max_block` vectors of units.
// Within a block the rows are the inputs (n_in of them, then the bias); each row holds the
// block's means and then its variances, so a pass over a block is one forward stream:
//   weights[block.offset + row * 2 * block.n_vec * lanes + {0: m_w, n_vec * lanes: v_w}]
// The output layer has few units, so their vectors run over the inputs instead: two arrays with
// one padded row per unit.
// Padding units have m_w = 0, v_w = 1 and receive zero gradients; nothing reads what they give.
#pragma once

#include "arena.hpp"
#include "points.hpp"
#include "simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

#if defined(__AVX512F__)
constexpr int max_block = 4;  // 4 vectors * (m_a, v_a, two gradients) leave 16 of 32 registers
#else
constexpr int max_block = 2;
#endif

struct Block {
    size_t offset;  // of the block's first weight
    int first;      // vector index of the block's first unit
    int n_vec;
};

template <typename T>
struct HiddenLayer {
    int n_in, n_out, n_vec, n_blocks;
    size_t n_weights;  // padded, means and variances together
    Block* blocks;
    T* weights;
    T *m_a, *v_a;  // pre-activations, (n_vec * lanes)
    T *dm_dm, *dm_dv, *dv_dm, *dv_dv;
    T *d_m, *d_v;  // dlogZ/dm_a, dlogZ/dv_a (first layer: d_v is d_m^2 - 2 dlogZ/dv_a)
    // Outputs scaled for the next layer, whose fan-in (bias included) is n_out + 1:
    T inv_n, inv_sqrt_n;  // 1/n, 1/sqrt(n)
    T *z_m, *z_v, *z_e2;  // m_z/sqrt(n), v_z/n, (m_z^2 + v_z)/n; bias at index n_out
    T *g_m, *g_v;         // per input row, one vector each: sums for the backward pass
};

template <typename T>
struct Network {
    int n_hidden, n_features;
    HiddenLayer<T>* hidden;
    int n_out;                // units of the output layer
    int out_n_in, out_n_vec;  // inputs of an output unit (bias included), in vectors
    T out_inv_n, out_inv_sqrt_n;
    T *out_m, *out_v;           // (n_out, out_n_vec * lanes)
    double *m_out, *v_out;      // the output's moments, (n_out,)
    double *d_m_out, *d_v_out;  // dlogZ/dm_out, dlogZ/dv_out
    double* scratch;            // what the likelihood works in
    Point<T> point, next;
    int n_common;      // of lists: inputs with which both begin, the bias not counted
    int n_run;         // the first of these, if they are 0, 1, ...
    T *d_z_m, *d_z_v;  // dlogZ/dm_z, dlogZ/dv_z of the layer below
};

PROBPROP_INLINE int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Lay the network out in the arena (which only measures while its base is null).
template <typename T>
static Network<T> lay_out(Arena& arena, const int* sizes, int n_layers, bool listed,
                          size_t n_scratch) {
    constexpr int lanes = Simd<T>::lanes;
    Network<T> net;
    net.n_hidden = n_layers - 1;
    net.n_features = sizes[0];
    net.hidden = arena.take<HiddenLayer<T>>(static_cast<size_t>(net.n_hidden));
    size_t widest = static_cast<size_t>(sizes[0]) + 1;
    for (int l = 0; l < net.n_hidden; ++l) {
        HiddenLayer<T> layer;
        layer.n_in = sizes[l];
        layer.n_out = sizes[l + 1];
        layer.n_vec = ceil_div(layer.n_out, lanes);
        layer.n_blocks = ceil_div(layer.n_vec, max_block);
        layer.inv_n = T(1) / T(layer.n_out + 1);
        layer.inv_sqrt_n = T(1) / T(__builtin_sqrt(double(layer.n_out + 1)));
        const size_t rows = static_cast<size_t>(layer.n_in) + 1;
        const size_t units = static_cast<size_t>(layer.n_vec) * lanes;
        const size_t outputs = static_cast<size_t>(ceil_div(layer.n_out + 1, lanes)) * lanes;
        layer.n_weights = 2 * rows * units;
        layer.blocks = arena.take<Block>(static_cast<size_t>(layer.n_blocks));
        layer.weights = arena.take<T>(layer.n_weights);
        T** per_unit[] = {&layer.m_a,   &layer.v_a,   &layer.dm_dm, &layer.dm_dv,
                          &layer.dv_dm, &layer.dv_dv, &layer.d_m,   &layer.d_v};
        for (T** field : per_unit) *field = arena.take<T>(units);
        T** per_output[] = {&layer.z_m, &layer.z_v, &layer.z_e2};
        for (T** field : per_output) *field = arena.take<T>(outputs);
        const size_t padded_rows = (rows + lanes - 1) / lanes * lanes;
        layer.g_m = arena.take<T>(padded_rows * lanes);
        layer.g_v = arena.take<T>(padded_rows * lanes);
        if (outputs > widest) widest = outputs;
        if (net.hidden != nullptr) {
            size_t offset = 0;
            for (int b = 0, first = 0; b < layer.n_blocks; ++b) {
                const int n_vec = ceil_div(layer.n_vec - first, layer.n_blocks - b);
                layer.blocks[b] = {offset, first, n_vec};
                offset += 2 * rows * static_cast<size_t>(n_vec) * lanes;
                first += n_vec;
            }
            net.hidden[l] = layer;
        }
    }
    net.out_n_in = sizes[net.n_hidden] + 1;
    net.out_n_vec = ceil_div(net.out_n_in, lanes);
    net.out_inv_n = T(1) / T(net.out_n_in);
    net.out_inv_sqrt_n = T(1) / T(__builtin_sqrt(double(net.out_n_in)));
    net.n_out = sizes[n_layers];
    const size_t n_out = static_cast<size_t>(net.n_out);
    const size_t out_padded = n_out * static_cast<size_t>(net.out_n_vec) * lanes;
    net.out_m = arena.take<T>(out_padded);
    net.out_v = arena.take<T>(out_padded);
    double** per_output_unit[] = {&net.m_out, &net.v_out, &net.d_m_out, &net.d_v_out};
    for (double** field : per_output_unit) *field = arena.take<double>(n_out);
    net.scratch = arena.take<double>(n_scratch);
    // A list has room for as many filled inputs.
    const size_t point =
        ((listed ? 2 : 1) * (static_cast<size_t>(sizes[0]) + 1) + lanes) / lanes * lanes;
    net.n_common = net.n_run = 0;
    Point<T>* points[] = {&net.point, &net.next};
    for (Point<T>* p : points) {
        T** per_input[] = {&p->x, &p->x2, &p->v};
        for (T** field : per_input) *field = arena.take<T>(point);
        p->input = listed ? arena.take<int>(point) : nullptr;
        p->n = 1;  // the bias
        p->n_filled = 0;
    }
    net.d_z_m = arena.take<T>(widest + lanes);
    net.d_z_v = arena.take<T>(widest + lanes);
    return net;
}

// With `listed` its points are lists.
template <typename T>
static Network<T> allocate(Arena& arena, const int* sizes, int n_layers, bool listed,
                           size_t n_scratch = 0) {
    lay_out<T>(arena, sizes, n_layers, listed, n_scratch);  // measures
    if (!arena.reserve()) return Network<T>{};
    return lay_out<T>(arena, sizes, n_layers, listed, n_scratch);
}

// Where the weight from `row` to `unit` has its mean; the variance is `n_vec * lanes` further.
template <typename T>
PROBPROP_INLINE T* weight_at(const HiddenLayer<T>& layer, int block, int row) {
    const Block& b = layer.blocks[block];
    return layer.weights + b.offset +
           static_cast<size_t>(row) * 2 * static_cast<size_t>(b.n_vec) * Simd<T>::lanes;
}

// Call visit(row, u, units, flat) for every weight of a layer: the row of its block begins at `row`
// of the layer's weights and has its mean at u, its variance at units + u; `flat` is where it is in
// the flat (n_out, n_in + 1) row-major arrays, or -1 of padding. A few rows at a time, so that both
// sides of a copy stay in the cache.
template <typename T, typename Visit>
PROBPROP_INLINE void each_weight(const HiddenLayer<T>& layer, Visit visit) {
    constexpr int lanes = Simd<T>::lanes, at_once = 8;
    const int rows = layer.n_in + 1;
    for (int b = 0; b < layer.n_blocks; ++b) {
        const int first = layer.blocks[b].first * lanes;
        const int units = layer.blocks[b].n_vec * lanes;
        for (int top = 0; top < rows; top += at_once) {
            const int end = top + at_once < rows ? top + at_once : rows;
            for (int u = 0; u < units; ++u) {
                size_t row = layer.blocks[b].offset + size_t(top) * 2 * size_t(units);
                const bool padding = first + u >= layer.n_out;
                for (int j = top; j < end; ++j, row += 2 * size_t(units))
                    visit(row, u, units, padding ? -1 : int64_t(first + u) * rows + j);
            }
        }
    }
}

// Copy between the flat arrays and the blocks.
template <typename T, bool to_blocks>
static void copy_weights(Network<T>& net, T* m_w, T* v_w) {
    constexpr int lanes = Simd<T>::lanes;
    for (int l = 0; l < net.n_hidden; ++l) {
        HiddenLayer<T>& layer = net.hidden[l];
        each_weight(layer, [&](size_t row, int u, int units, int64_t flat) {
            T* at = layer.weights + row;
            if (to_blocks) {
                at[u] = flat < 0 ? T(0) : m_w[flat];
                at[units + u] = flat < 0 ? T(1) : v_w[flat];
            } else if (flat >= 0) {
                m_w[flat] = at[u];
                v_w[flat] = at[units + u];
            }
        });
        const size_t n = static_cast<size_t>(layer.n_out) * (static_cast<size_t>(layer.n_in) + 1);
        m_w += n;
        v_w += n;
        if (to_blocks) {
            const int outputs = ceil_div(layer.n_out + 1, lanes) * lanes;
            const T fan_in = T(layer.n_out + 1);
            for (int u = layer.n_out; u < outputs; ++u) {  // the bias unit (17), then padding
                layer.z_m[u] = u == layer.n_out ? T(1) / T(__builtin_sqrt(double(fan_in))) : T(0);
                layer.z_v[u] = T(0);
                layer.z_e2[u] = u == layer.n_out ? T(1) / fan_in : T(0);
            }
        }
    }
    const int stride = net.out_n_vec * lanes;
    for (int k = 0; k < net.n_out; ++k, m_w += net.out_n_in, v_w += net.out_n_in) {
        T *out_m = net.out_m + k * stride, *out_v = net.out_v + k * stride;
        for (int j = 0; j < stride; ++j) {
            if (to_blocks) {
                out_m[j] = j < net.out_n_in ? m_w[j] : T(0);
                out_v[j] = j < net.out_n_in ? v_w[j] : T(1);
            } else if (j < net.out_n_in) {
                m_w[j] = out_m[j];
                v_w[j] = out_v[j];
            }
        }
    }
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

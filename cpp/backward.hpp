// The way back through the network: gradients of log Z, and the updates of the weights they make.
// The readable twin is src/probprop/reference/adf.py.
//
// The gradient of one point is of rank one, so nothing of weight size is ever stored: with
// z_m = m_z/sqrt(n), z_v = v_z/n, z_e2 = (m_z^2 + v_z)/n of the input row and d_m, d_v of the
// unit, dlogZ_dm_w = d_m z_m + 2 d_v m_w z_v and dlogZ_dv_w = d_v z_e2.
#pragma once

#include "forward.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// Whether the weights stay as they are (a prediction) or follow Eqs. (6)(7). It is a template
// parameter, so that a prediction does not pay for updates.
enum class Weights { kept, updated };

// The rare case: where v_new is not above the floor or not finite, the old m and v stay. Returns
// how many of n weights were undone.
template <typename T>
static __attribute__((noinline, cold)) int undo(const T* m, const T* v, T* m_new, T* v_new, int n) {
    int undone = 0;
    for (int i = 0; i < n; ++i) {
        if (v_new[i] > Simd<T>::v_floor && v_new[i] < T(__builtin_inf())) continue;
        m_new[i] = m[i];
        v_new[i] = v[i];
        ++undone;
    }
    return undone;
}

// Check n_vec updated vectors, undoing where needed; m and v still hold the old ones. The new pass
// through memory only in the rare case, so that in the ordinary one they stay in registers.
template <typename T, int n_vec>
PROBPROP_INLINE int check_updates(const T* m, const T* v, Vec<T>* m_new, Vec<T>* v_new) {
    if (PROBPROP_LIKELY(!(any_suspicious<T, n_vec>(v_new)))) return 0;
    Vec<T> m_kept[n_vec], v_kept[n_vec];
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        m_kept[b] = m_new[b];
        v_kept[b] = v_new[b];
    }
    const int undone = undo<T>(m, v, reinterpret_cast<T*>(m_kept), reinterpret_cast<T*>(v_kept),
                               n_vec * Simd<T>::lanes);
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        m_new[b] = m_kept[b];
        v_new[b] = v_kept[b];
    }
    return undone;
}

// ---- The first layer, where its inputs have no variance: (6)(7) are m + p d_m and v - p^2 c with
// p = v x/sqrt(n), c = d_m^2 - 2 d_v. (With variances it is one of the layers between.) The update
// of one point and the forward of the next are fused: the weights are read once and written once
// per point.

// Update one row of weights, which m and v are: x is its input.
template <typename T, int n_vec>
PROBPROP_INLINE int update_row(T* w, T x, const Vec<T>* d_m, const Vec<T>* c, Vec<T>* m,
                               Vec<T>* v) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> m_new[n_vec], v_new[n_vec];
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        const Vec<T> p = v[b] * x;
        m_new[b] = m[b] + p * d_m[b];
        v_new[b] = v[b] - (p * c[b]) * p;
    }
    const int undone = check_updates<T, n_vec>(w, w + n_vec * lanes, m_new, v_new);
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        store(w + b * lanes, m[b] = m_new[b]);
        store(w + (n_vec + b) * lanes, v[b] = v_new[b]);
    }
    return undone;
}

// Add what one row of weights, m and v, gives to (13)(14).
template <typename T, int n_vec>
PROBPROP_INLINE void add_row(const Vec<T>* m, const Vec<T>* v, T x, T x2, Vec<T>* sum_m,
                             Vec<T>* sum_v) {
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        sum_m[b] += m[b] * x;
        sum_v[b] += v[b] * x2;
    }
}

// Apply the update of the point in x; then sum (13)(14) for the point in x_next.
template <typename T, int n_vec, Weights weights>
static int64_t first_layer_block(T* w, int rows, const T* x, const T* d_m_, const T* c_,
                                 const T* x_next, const T* x2_next, T* m_a, T* v_a) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> d_m[n_vec], c[n_vec], sum_m[n_vec] = {}, sum_v[n_vec] = {};
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        d_m[b] = load(d_m_ + b * lanes);
        c[b] = load(c_ + b * lanes);
    }
    int64_t undone = 0;
    for (int row = 0; row < rows; ++row, w += 2 * n_vec * lanes) {
        Vec<T> m[n_vec], v[n_vec];
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            m[b] = load(w + b * lanes);
            v[b] = load(w + (n_vec + b) * lanes);
        }
        if constexpr (weights == Weights::updated)
            undone += update_row<T, n_vec>(w, x[row], d_m, c, m, v);
        add_row<T, n_vec>(m, v, x_next[row], x2_next[row], sum_m, sum_v);
    }
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        store(m_a + b * lanes, sum_m[b]);
        store(v_a + b * lanes, sum_v[b]);
    }
    return undone;
}

template <typename T, int n_vec>
PROBPROP_INLINE T* load_row(T* w, int row, Vec<T>* m, Vec<T>* v) {
    constexpr int lanes = Simd<T>::lanes;
    T* at = w + static_cast<size_t>(row) * (2 * n_vec * lanes);
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        m[b] = load(at + b * lanes);
        v[b] = load(at + (n_vec + b) * lanes);
    }
    return at;
}

// The same where points are lists: rows of weights whose input is 0 are not touched. The first
// `n_common` inputs of both lists are the same, and both end with the bias; of these both are
// fused. The first `n_run` are 0, 1, ...: rows that follow each other are read a quarter faster.
template <typename T, int n_vec, Weights weights>
static int64_t first_layer_listed(T* w, int n_inputs, int n_run, int n_common, Point<T> point,
                                  const T* d_m_, const T* c_, Point<T> next, T* m_a, T* v_a) {
    constexpr int lanes = Simd<T>::lanes;
    const int *of_point = point.input, *of_next = next.input;
    const T *x = point.x, *x_next = next.x, *x2_next = next.x2;
    const int n = point.n - 1, n_next = next.n - 1;  // without the bias
    Vec<T> d_m[n_vec], c[n_vec], sum_m[n_vec] = {}, sum_v[n_vec] = {};
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        d_m[b] = load(d_m_ + b * lanes);
        c[b] = load(c_ + b * lanes);
    }
    int64_t undone = 0;
    int k = 0;
    if constexpr (weights == Weights::updated) {
        T* at_run = w;
        for (; k < n_run; ++k, at_run += 2 * n_vec * lanes) {
            Vec<T> m[n_vec], v[n_vec];
            load_row<T, n_vec>(at_run, 0, m, v);
            undone += update_row<T, n_vec>(at_run, x[k], d_m, c, m, v);
            add_row<T, n_vec>(m, v, x_next[k], x2_next[k], sum_m, sum_v);
        }
        for (; k < n_common; ++k) {
            Vec<T> m[n_vec], v[n_vec];
            T* at = load_row<T, n_vec>(w, of_point[k], m, v);
            undone += update_row<T, n_vec>(at, x[k], d_m, c, m, v);
            add_row<T, n_vec>(m, v, x_next[k], x2_next[k], sum_m, sum_v);
        }
        for (int own = k; own < n; ++own) {
            Vec<T> m[n_vec], v[n_vec];
            T* at = load_row<T, n_vec>(w, of_point[own], m, v);
            undone += update_row<T, n_vec>(at, x[own], d_m, c, m, v);
        }
    }
    Vec<T> m[n_vec], v[n_vec];
    for (; k < n_next; ++k) {
        load_row<T, n_vec>(w, of_next[k], m, v);
        add_row<T, n_vec>(m, v, x_next[k], x2_next[k], sum_m, sum_v);
    }
    T* bias = load_row<T, n_vec>(w, n_inputs, m, v);
    if constexpr (weights == Weights::updated)
        undone += update_row<T, n_vec>(bias, x[n], d_m, c, m, v);
    add_row<T, n_vec>(m, v, x_next[n_next], x2_next[n_next], sum_m, sum_v);
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        store(m_a + b * lanes, sum_m[b]);
        store(v_a + b * lanes, sum_v[b]);
    }
    return undone;
}

// The filled inputs of a point, which have a variance: their updates, as in the layers between, or
// what they add to (13)(14).
template <typename T, int n_vec>
static int64_t update_filled(T* w, const Point<T>& point, const T* d_m_, const T* c_) {
    constexpr int lanes = Simd<T>::lanes;
    int64_t undone = 0;
    for (int k = point.n; k < point.n + point.n_filled; ++k) {
        Vec<T> m[n_vec], v[n_vec], m_new[n_vec], v_new[n_vec];
        T* at = load_row<T, n_vec>(w, point.input[k], m, v);
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            const Vec<T> d_m = load(d_m_ + b * lanes), d_v2 = d_m * d_m - load(c_ + b * lanes);
            const Vec<T> p = v[b] * (d_m * point.x[k] + d_v2 * m[b] * point.v[k]);
            m_new[b] = m[b] + p;
            v_new[b] = v[b] - p * p + (d_v2 * v[b] * point.x2[k]) * v[b];
        }
        undone += check_updates<T, n_vec>(at, at + n_vec * lanes, m_new, v_new);
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            store(at + b * lanes, m_new[b]);
            store(at + (n_vec + b) * lanes, v_new[b]);
        }
    }
    return undone;
}
template <typename T, int n_vec>
static void add_filled(T* w, const Point<T>& point, T* m_a, T* v_a) {
    constexpr int lanes = Simd<T>::lanes;
    for (int k = point.n; k < point.n + point.n_filled; ++k) {
        Vec<T> m[n_vec], v[n_vec];
        load_row<T, n_vec>(w, point.input[k], m, v);
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            store(m_a + b * lanes, load(m_a + b * lanes) + m[b] * point.x[k]);
            store(v_a + b * lanes,
                  load(v_a + b * lanes) + v[b] * point.x2[k] + (m[b] * m[b]) * point.v[k]);
        }
    }
}

template <typename T, Weights weights>
static int64_t first_layer(Network<T>& net) {
    HiddenLayer<T>& layer = net.hidden[0];
    const bool listed = net.next.input != nullptr;
    const bool updates = weights == Weights::updated && net.point.n_filled > 0;
    int64_t undone = 0;
    for (int b = 0; b < layer.n_blocks; ++b) {
        const int first = layer.blocks[b].first * Simd<T>::lanes;
        T *w = weight_at(layer, b, 0), *m_a = layer.m_a + first, *v_a = layer.v_a + first;
        const T *d_m = layer.d_m + first, *c = layer.d_v + first;
#define PROBPROP_BLOCK(n)                                                                        \
    if (updates) undone += update_filled<T, n>(w, net.point, d_m, c);                            \
    undone += listed ? first_layer_listed<T, n, weights>(w, layer.n_in, net.n_run, net.n_common, \
                                                         net.point, d_m, c, net.next, m_a, v_a)  \
                     : first_layer_block<T, n, weights>(w, layer.n_in + 1, net.point.x, d_m, c,  \
                                                        net.next.x, net.next.x2, m_a, v_a);      \
    if (net.next.n_filled > 0) add_filled<T, n>(w, net.next, m_a, v_a)
        switch (layer.blocks[b].n_vec) {
            case 1: PROBPROP_BLOCK(1); break;
            case 2: PROBPROP_BLOCK(2); break;
            case 3: PROBPROP_BLOCK(3); break;
            default: PROBPROP_BLOCK(4);
        }
#undef PROBPROP_BLOCK
    }
    return undone;
}

// ---- The output unit and the layers between.

// Turn the gradients with respect to the outputs z of a layer into gradients with respect to its
// activations, S(15)(16), for vector i.
template <typename T, bool first>
PROBPROP_INLINE void through_activation(HiddenLayer<T>& layer, int i, Vec<T> d_z_m, Vec<T> d_z_v) {
    const int at = i * Simd<T>::lanes;
    Vec<T> d_m = d_z_m * load(layer.dm_dm + at) + d_z_v * load(layer.dv_dm + at);
    Vec<T> d_v = d_z_m * load(layer.dm_dv + at) + d_z_v * load(layer.dv_dv + at);
    if (i == layer.n_vec - 1) {
        const Int<T> unit = is_unit<T>(i, layer.n_out);
        d_m = unit ? d_m : Vec<T>{};
        d_v = unit ? d_v : Vec<T>{};
    }
    store(layer.d_m + at, d_m);
    store(layer.d_v + at, first ? d_m * d_m - T(2) * d_v : d_v);
}
template <typename T, bool first>
PROBPROP_INLINE void through_activation(const Network<T>& net, HiddenLayer<T>& layer) {
    for (int i = 0; i < layer.n_vec; ++i)
        through_activation<T, first>(layer, i, load(net.d_z_m + i * Simd<T>::lanes),
                                     load(net.d_z_v + i * Simd<T>::lanes));
}

// What follows on dlogZ/dm_z, dlogZ/dv_z of an output unit's inputs: they are left for the next
// unit, or, after the last, go through the activation of the layer below if that is the first.
enum class Below { waits, first };

// Update one output unit's weights, if asked; leave dlogZ/dm_z, dlogZ/dv_z of its inputs, or add
// to them.
template <typename T, Weights weights, bool add, Below below>
PROBPROP_INLINE int64_t output_unit_backward(Network<T>& net, const LayerInputs<T>& in, T* out_m,
                                             T* out_v, T d_m, T d_v) {
    constexpr int lanes = Simd<T>::lanes;
    const T inv_n = net.out_inv_n, inv_sqrt_n = net.out_inv_sqrt_n;
    const T d_v2 = T(2) * d_v;
    int64_t undone = 0;
    for (int i = 0; i < net.out_n_vec; ++i) {
        const int at = i * lanes;
        const Vec<T> m = load(out_m + at), v = load(out_v + at);
        const Vec<T> z_m = load(in.z_m + at);
        Vec<T> d_z_m = (d_m * m + (d_v2 * z_m) * v) * inv_sqrt_n;
        Vec<T> d_z_v = d_v * (m * m + v) * inv_n;
        if constexpr (add) {
            d_z_m += load(net.d_z_m + at);
            d_z_v += load(net.d_z_v + at);
        }
        if constexpr (below == Below::first) {
            if (i < net.hidden[0].n_vec)
                through_activation<T, true>(net.hidden[0], i, d_z_m, d_z_v);
        } else {
            store(net.d_z_m + at, d_z_m);
            store(net.d_z_v + at, d_z_v);
        }
        if constexpr (weights == Weights::updated) {
            const Vec<T> p = v * (d_m * z_m + (d_v2 * m) * load(in.z_v + at));  // v dlogZ_dm_w
            Vec<T> m_new = m + p;
            Vec<T> v_new = v - p * p + (d_v2 * load(in.z_e2 + at) * v) * v;
            undone += check_updates<T, 1>(out_m + at, out_v + at, &m_new, &v_new);
            store(out_v + at, v_new);
            store(out_m + at, m_new);
        }
    }
    return undone;
}

// The whole output layer, with the derivatives in d_m_out and d_v_out.
template <typename T, Weights weights, Below below = Below::waits>
PROBPROP_INLINE int64_t output_backward(Network<T>& net) {
    const LayerInputs<T> in = inputs_of(net, net.n_hidden);
    const int stride = net.out_n_vec * Simd<T>::lanes, last = net.n_out - 1;
    const auto d_m = [&](int k) { return T(net.d_m_out[k]); };
    const auto d_v = [&](int k) { return T(net.d_v_out[k]); };
    if (last == 0)
        return output_unit_backward<T, weights, false, below>(net, in, net.out_m, net.out_v, d_m(0),
                                                              d_v(0));
    int64_t undone = output_unit_backward<T, weights, false, Below::waits>(
        net, in, net.out_m, net.out_v, d_m(0), d_v(0));
    for (int k = 1; k < last; ++k)
        undone += output_unit_backward<T, weights, true, Below::waits>(
            net, in, net.out_m + k * stride, net.out_v + k * stride, d_m(k), d_v(k));
    return undone +
           output_unit_backward<T, weights, true, below>(
               net, in, net.out_m + last * stride, net.out_v + last * stride, d_m(last), d_v(last));
}

// Lane r of the result is the sum over the lanes of the vector at rows + r * lanes.
template <typename T, int stride, size_t... lane>
PROBPROP_INLINE Vec<T> add_pairs(Vec<T> a, Vec<T> b, LaneList<lane...>) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> low = __builtin_shufflevector(
        a, b, (lane % (2 * stride) < stride ? int(lane) : int(lane) - stride + lanes)...);
    const Vec<T> high = __builtin_shufflevector(
        a, b, (lane % (2 * stride) < stride ? int(lane) + stride : int(lane) + lanes)...);
    return low + high;
}
template <typename T, int stride>
PROBPROP_INLINE Vec<T> sum_rows(const T* rows) {
    constexpr int lanes = Simd<T>::lanes;
    if constexpr (stride == 0) {
        return load(rows);
    } else {  // rows come in an order that makes lane r of the last addition row r
        const Vec<T> a = sum_rows<T, stride / 2>(rows);
        const Vec<T> b = sum_rows<T, stride / 2>(rows + stride * lanes);
        return add_pairs<T, stride>(a, b, typename Lanes<lanes>::List{});
    }
}

// Update one block of a middle layer, if asked, and sum, per input row, what the layer below needs:
// g_m = sum d_m m + z_m (2 d_v) v, g_v = sum (2 d_v)(m^2 + v), with the weights as they were.
template <typename T, int n_vec, bool add, Weights weights>
static int64_t middle_block(T* w, int rows, const T* z_m, const T* z_v, const T* z_e2,
                            const T* d_m_, const T* d_v_, T* g_m, T* g_v) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> d_m[n_vec], d_v2[n_vec];
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        d_m[b] = load(d_m_ + b * lanes);
        d_v2[b] = T(2) * load(d_v_ + b * lanes);
    }
    int64_t undone = 0;
    for (int row = 0; row < rows; ++row, w += 2 * n_vec * lanes) {
        Vec<T> m[n_vec], v[n_vec], m_new[n_vec], v_new[n_vec];
        Vec<T> sum_m = add ? load(g_m + row * lanes) : Vec<T>{};
        Vec<T> sum_v = add ? load(g_v + row * lanes) : Vec<T>{};
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            m[b] = load(w + b * lanes);
            v[b] = load(w + (n_vec + b) * lanes);
            const Vec<T> d_v2_m = d_v2[b] * m[b], d_v2_v = d_v2[b] * v[b];
            sum_m += d_m[b] * m[b];
            sum_m += d_v2_v * z_m[row];
            sum_v += d_v2_m * m[b];
            sum_v += d_v2_v;
            if constexpr (weights == Weights::updated) {
                const Vec<T> p = v[b] * (d_m[b] * z_m[row] + d_v2_m * z_v[row]);  // v dlogZ_dm_w
                m_new[b] = m[b] + p;
                v_new[b] = v[b] - p * p + (d_v2_v * z_e2[row]) * v[b];
            }
        }
        if constexpr (weights == Weights::updated) {
            undone += check_updates<T, n_vec>(w, w + n_vec * lanes, m_new, v_new);
            PROBPROP_UNROLL
            for (int b = 0; b < n_vec; ++b) {
                store(w + b * lanes, m_new[b]);
                store(w + (n_vec + b) * lanes, v_new[b]);
            }
        }
        store(g_m + row * lanes, sum_m);
        store(g_v + row * lanes, sum_v);
    }
    return undone;
}

template <typename T, Weights weights>
static int64_t middle_backward(Network<T>& net, int l) {
    constexpr int lanes = Simd<T>::lanes;
    HiddenLayer<T>& layer = net.hidden[l];
    const LayerInputs<T> in = inputs_of(net, l);
    const int rows = layer.n_in + 1;
    int64_t undone = 0;
    for (int b = 0; b < layer.n_blocks; ++b) {
        T* w = weight_at(layer, b, 0);
        const T* d_m = layer.d_m + layer.blocks[b].first * lanes;
        const T* d_v = layer.d_v + layer.blocks[b].first * lanes;
#define PROBPROP_BLOCK(n)                                                                        \
    undone += b == 0 ? middle_block<T, n, false, weights>(w, rows, in.z_m, in.z_v, in.z_e2, d_m, \
                                                          d_v, layer.g_m, layer.g_v)             \
                     : middle_block<T, n, true, weights>(w, rows, in.z_m, in.z_v, in.z_e2, d_m,  \
                                                         d_v, layer.g_m, layer.g_v)
        switch (layer.blocks[b].n_vec) {
            case 1: PROBPROP_BLOCK(1); break;
            case 2: PROBPROP_BLOCK(2); break;
            case 3: PROBPROP_BLOCK(3); break;
            default: PROBPROP_BLOCK(4);
        }
#undef PROBPROP_BLOCK
    }
    const T inv_sqrt_n = T(1) / T(__builtin_sqrt(double(rows)));
    const T half_inv_n = T(0.5) / T(rows);
    for (int row = 0; row < rows; row += lanes) {
        store(net.d_z_m + row, sum_rows<T, lanes / 2>(layer.g_m + row * lanes) * inv_sqrt_n);
        store(net.d_z_v + row, sum_rows<T, lanes / 2>(layer.g_v + row * lanes) * half_inv_n);
    }
    return undone;
}

template <typename U>
PROBPROP_INLINE void swap(U& a, U& b) {
    const U c = a;
    a = b;
    b = c;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// The forward pass of one point: [PBP15] Eq. (13) to (17).
#pragma once

#include "network.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// Add to a point in x, x_e2 the variances of its features: variance/n, (x^2 + variance)/n.
template <typename T>
PROBPROP_INLINE void add_variances(const T* variances, int n_features, T inv_sqrt_n, T* x_v,
                                   T* x_e2) {
    for (int j = 0; j < n_features; ++j) {
        x_v[j] = variances[j] * inv_sqrt_n * inv_sqrt_n;
        x_e2[j] += x_v[j];
    }
}

// True in the lanes of vector `i` that hold real units.
template <typename T>
PROBPROP_INLINE Int<T> is_unit(int i, int n_units) {
    Int<T> index;
    for (int k = 0; k < Simd<T>::lanes; ++k) index[k] = k;
    return index < (Int<T>{} + (n_units - i * Simd<T>::lanes));
}

// Eq. (15) to (17): activations to scaled outputs, and the derivatives for the way back. An
// Activation is a struct such as Relu of activations/relu.hpp, with one function, `moments`.
template <typename T, typename Activation, bool with_derivatives>
PROBPROP_INLINE void activate(HiddenLayer<T>& layer) {
    constexpr int lanes = Simd<T>::lanes;
    const T inv_n = layer.inv_n, inv_sqrt_n = layer.inv_sqrt_n;
    for (int i = 0; i < layer.n_vec; ++i) {
        const int at = i * lanes;
        const auto z = Activation::template moments<T>(load(layer.m_a + at), load(layer.v_a + at));
        Vec<T> z_m = z.m_z * inv_sqrt_n;
        Vec<T> z_v = z.v_z * inv_n;
        Vec<T> z_e2 = z_m * z_m + z_v;
        if (i == layer.n_vec - 1) {  // the bias unit and the padding keep what was set once
            const Int<T> unit = is_unit<T>(i, layer.n_out);
            z_m = unit ? z_m : load(layer.z_m + at);
            z_v = unit ? z_v : load(layer.z_v + at);
            z_e2 = unit ? z_e2 : load(layer.z_e2 + at);
        }
        store(layer.z_m + at, z_m);
        store(layer.z_v + at, z_v);
        store(layer.z_e2 + at, z_e2);
        if (with_derivatives) {
            store(layer.dm_dm + at, z.dm_dm);
            store(layer.dm_dv + at, z.dm_dv);
            store(layer.dv_dm + at, z.dv_dm);
            store(layer.dv_dv + at, z.dv_dv);
        }
    }
}

// Eq. (13)(14) for one block of a hidden layer behind the first.
template <typename T, int n_vec>
static void linear_block(const T* w, int rows, const T* z_m, const T* z_v, const T* z_e2, T* m_a,
                         T* v_a) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> sum_m[n_vec] = {}, sum_v[n_vec] = {};
    for (int row = 0; row < rows; ++row, w += 2 * n_vec * lanes) {
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            const Vec<T> m = load(w + b * lanes);
            const Vec<T> v = load(w + (n_vec + b) * lanes);
            sum_m[b] += m * z_m[row];
            sum_v[b] += v * z_e2[row];
            sum_v[b] += (m * m) * z_v[row];
        }
    }
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        store(m_a + b * lanes, sum_m[b]);
        store(v_a + b * lanes, sum_v[b]);
    }
}

// What layer l reads (the output unit's is n_hidden): the layer below, or the point itself.
template <typename T>
struct LayerInputs {
    const T *z_m, *z_v, *z_e2;
};
template <typename T>
PROBPROP_INLINE LayerInputs<T> inputs_of(const Network<T>& net, int l) {
    if (l == 0) return {net.point.x, net.point.v, net.point.x2};
    const HiddenLayer<T>& below = net.hidden[l - 1];
    return {below.z_m, below.z_v, below.z_e2};
}

template <typename T>
static void linear_layer(HiddenLayer<T>& layer, const LayerInputs<T>& in) {
    constexpr int lanes = Simd<T>::lanes;
    const int rows = layer.n_in + 1;
    for (int b = 0; b < layer.n_blocks; ++b) {
        const T* w = weight_at(layer, b, 0);
        T* m_a = layer.m_a + layer.blocks[b].first * lanes;
        T* v_a = layer.v_a + layer.blocks[b].first * lanes;
        switch (layer.blocks[b].n_vec) {
            case 1: linear_block<T, 1>(w, rows, in.z_m, in.z_v, in.z_e2, m_a, v_a); break;
            case 2: linear_block<T, 2>(w, rows, in.z_m, in.z_v, in.z_e2, m_a, v_a); break;
            case 3: linear_block<T, 3>(w, rows, in.z_m, in.z_v, in.z_e2, m_a, v_a); break;
            default: linear_block<T, 4>(w, rows, in.z_m, in.z_v, in.z_e2, m_a, v_a);
        }
    }
}

// Give the next point, which is set, its variances, and sum (13)(14) of the first layer for it.
template <typename T>
static void uncertain_first_layer(Network<T>& net, const T* variances, T inv_sqrt_n) {
    add_variances(variances, net.n_features, inv_sqrt_n, net.next.v, net.next.x2);
    if (net.n_hidden > 0) linear_layer(net.hidden[0], {net.next.x, net.next.v, net.next.x2});
}

// From the first layer's activations to the means and variances of the outputs.
template <typename T, typename Activation, bool with_derivatives>
PROBPROP_INLINE void finish_forward(Network<T>& net, double* m, double* v) {
    constexpr int lanes = Simd<T>::lanes;
    for (int l = 0; l < net.n_hidden; ++l) {
        if (l > 0) linear_layer(net.hidden[l], inputs_of(net, l));
        activate<T, Activation, with_derivatives>(net.hidden[l]);
    }
    const LayerInputs<T> in = inputs_of(net, net.n_hidden);
    const int stride = net.out_n_vec * lanes;
    for (int k = 0; k < net.n_out; ++k) {
        const T *out_m = net.out_m + k * stride, *out_v = net.out_v + k * stride;
        Vec<T> sum_m = {}, sum_v = {};
        for (int at = 0; at < stride; at += lanes) {
            const Vec<T> m_w = load(out_m + at);
            sum_m += m_w * load(in.z_m + at);
            sum_v += (m_w * m_w) * load(in.z_v + at) + load(out_v + at) * load(in.z_e2 + at);
        }
        m[k] = double(sum_lanes<T>(sum_m));
        v[k] = double(sum_lanes<T>(sum_v));
    }
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

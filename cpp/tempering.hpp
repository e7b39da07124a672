// Bounded evidence: before the updates on a few points, q is tempered toward the prior,
// q <- q^(1 - share) prior^share. The readable twin is src/probprop/reference/adf.py.
#pragma once

#include "kernel.hpp"
#include "network.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The precisions of the Gaussian prior factors of the weights: a block's row has the block's
// units, so a row starts at half of what it does among the weights.
template <typename T>
struct PriorPrecisions {
    T** hidden;  // per layer
    T* out;
    // Where points are lists, see below:
    int64_t* tempered;  // of each input of the first layer: its tempering steps so far
    double* share;      // (n_tabulated,), of 0, 1, ... tempering steps together
};

constexpr int n_tabulated = 1024;

template <typename T>
static PriorPrecisions<T> lay_out(Arena& arena, const Network<T>& net) {
    PriorPrecisions<T> prior;
    prior.hidden = arena.take<T*>(static_cast<size_t>(net.n_hidden));
    for (int l = 0; l < net.n_hidden; ++l) {
        T* precisions = arena.take<T>(net.hidden[l].n_weights / 2);
        if (prior.hidden != nullptr) prior.hidden[l] = precisions;
    }
    prior.out = arena.take<T>(static_cast<size_t>(net.n_out * net.out_n_vec) * Simd<T>::lanes);
    const bool listed = net.next.input != nullptr;
    prior.tempered = arena.take<int64_t>(listed ? static_cast<size_t>(net.n_features) + 1 : 0);
    prior.share = arena.take<double>(listed ? n_tabulated : 0);
    return prior;
}

// Copy the flat precisions to where `temper` reads them; padding has 1, as its variance.
template <typename T>
static PriorPrecisions<T> allocate(Arena& arena, const Network<T>& net, const T* v_hat_nat) {
    constexpr int lanes = Simd<T>::lanes;
    lay_out(arena, net);
    if (!arena.reserve()) return PriorPrecisions<T>{};
    PriorPrecisions<T> prior = lay_out(arena, net);
    for (int l = 0; l < net.n_hidden; ++l) {
        const HiddenLayer<T>& layer = net.hidden[l];
        each_weight(layer, [&](size_t row, int u, int, int64_t flat) {
            prior.hidden[l][row / 2 + size_t(u)] = flat < 0 ? T(1) : v_hat_nat[flat];
        });
        v_hat_nat += static_cast<size_t>(layer.n_out) * (static_cast<size_t>(layer.n_in) + 1);
    }
    T* at = prior.out;
    for (int k = 0; k < net.n_out; ++k, v_hat_nat += net.out_n_in)
        for (int j = 0; j < net.out_n_vec * lanes; ++j)
            *at++ = j < net.out_n_in ? v_hat_nat[j] : T(1);
    return prior;
}

// Natural parameters are averaged: 1/v becomes (1 - share)/v + share v_hat, m/v (1 - share) m/v.
template <typename T>
PROBPROP_INLINE void temper_vector(T* m, T* v, const T* v_hat, T share) {
    const Vec<T> v_old = load(v), kept = Vec<T>{} + (T(1) - share);
    const Vec<T> r = (Vec<T>{} + T(1)) / (kept + share * load(v_hat) * v_old);
    store(m, load(m) * (kept * r));
    store(v, v_old * r);
}

// The same of two vectors, one after the other, with one division for both.
template <typename T>
PROBPROP_INLINE void temper_pair(T* m, T* v, const T* v_hat, T share) {
    constexpr int lanes = Simd<T>::lanes;
    const Vec<T> v_0 = load(v), v_1 = load(v + lanes), kept = Vec<T>{} + (T(1) - share);
    const Vec<T> d_0 = kept + share * load(v_hat) * v_0;
    const Vec<T> d_1 = kept + share * load(v_hat + lanes) * v_1;
    const Vec<T> r = (Vec<T>{} + T(1)) / (d_0 * d_1);
    store(m, load(m) * (kept * (r * d_1)));
    store(m + lanes, load(m + lanes) * (kept * (r * d_0)));
    store(v, v_0 * (r * d_1));
    store(v + lanes, v_1 * (r * d_0));
}

// All layers from `first` on.
template <typename T>
static void temper(Network<T>& net, const PriorPrecisions<T>& prior, T share, int first) {
    constexpr int lanes = Simd<T>::lanes;
    for (int l = first; l < net.n_hidden; ++l) {
        const HiddenLayer<T>& layer = net.hidden[l];
        const T* v_hat = prior.hidden[l];
        for (int b = 0; b < layer.n_blocks; ++b) {
            const int units = layer.blocks[b].n_vec * lanes;
            T* m = weight_at(layer, b, 0);
            for (int row = 0; row <= layer.n_in; ++row, m += 2 * units)
                for (int u = 0; u < units; u += lanes, v_hat += lanes)
                    temper_vector<T>(m + u, m + units + u, v_hat, share);
        }
    }
    for (int j = 0; j < net.n_out * net.out_n_vec * lanes; j += lanes)
        temper_vector<T>(net.out_m + j, net.out_v + j, prior.out + j, share);
}

// The share that `n_points` steps remove together, each 1/capacity of what is left.
PROBPROP_INLINE double share_of(int64_t n_points, double capacity) {
    double kept = 1.0, base = 1.0 - 1.0 / capacity;
    for (; n_points > 0; n_points >>= 1, base *= base)
        kept *= (n_points & 1) != 0 ? base : 1.0;  // no branch that would be mispredicted
    return 1.0 - kept;
}

// ---- The first layer where points are lists: weights whose inputs are 0 do not change between two
// tempering steps, and these compose to one. So each row is tempered when its input occurs.

// The tempering steps so far: each for `every` points, but the last may be for fewer.
struct Returns {
    int64_t n, every, n_missing;
    double capacity;
};

template <typename T>
static void tabulate_shares(const PriorPrecisions<T>& prior, const Returns& returns, int64_t n) {
    for (int64_t k = 0; k <= n && k < n_tabulated; ++k)
        prior.share[k] = share_of(k * returns.every, returns.capacity);
}

// Make the tempering steps that the weights of an input have not made yet.
template <typename T>
PROBPROP_INLINE void temper_input(Network<T>& net, const PriorPrecisions<T>& prior, int input,
                                  const Returns& returns) {
    constexpr int lanes = Simd<T>::lanes;
    const int64_t n = returns.n - prior.tempered[input];
    if (n == 0) return;
    prior.tempered[input] = returns.n;
    const bool tabulated = n < n_tabulated && returns.n_missing == 0;
    const T share =
        T(tabulated ? prior.share[n]
                    : share_of(n * returns.every - returns.n_missing, returns.capacity));
    const HiddenLayer<T>& layer = net.hidden[0];
    for (int b = 0; b < layer.n_blocks; ++b) {
        const int units = layer.blocks[b].n_vec * lanes;
        const T* v_hat = prior.hidden[0] + layer.blocks[b].offset / 2 +
                         static_cast<size_t>(input) * static_cast<size_t>(units);
        T* m = weight_at(layer, b, input);
        int u = 0;
        for (; u + lanes < units; u += 2 * lanes)
            temper_pair<T>(m + u, m + units + u, v_hat + u, share);
        if (u < units) temper_vector<T>(m + u, m + units + u, v_hat + u, share);
    }
}

// The inputs of the next point from number `first` on.
template <typename T>
static __attribute__((noinline)) void temper_next(Network<T>& net, const PriorPrecisions<T>& prior,
                                                  const Returns& returns, int first) {
    const int end = net.next.n + net.next.n_filled;
    for (int k = first; k < end; ++k) temper_input(net, prior, net.next.input[k], returns);
}

// Find what the next point has in common with this one; have the other weights ready when it comes,
// if they are too many for the second cache, where waiting costs less than asking. `ascending`: the
// inputs of a list ascend.
template <typename T>
PROBPROP_INLINE void look_ahead(Network<T>& net, const PriorPrecisions<T>& prior, bool tempered,
                                bool ascending) {
    constexpr size_t near = size_t(1) << 20;
    const int *input = net.point.input, *next = net.next.input;
    const int n = (net.point.n < net.next.n ? net.point.n : net.next.n) - 1, last = net.next.n - 1;
    int k = 0;
    while (k + 4 <= n && __builtin_memcmp(input + k, next + k, 4 * sizeof(int)) == 0) k += 4;
    while (k < n && input[k] == next[k]) ++k;
    net.n_common = k;
    net.n_run = ascending && k > 0 && next[k - 1] == k - 1 ? k : 0;
    const HiddenLayer<T>& layer = net.hidden[0];
    for (; k < last && layer.n_weights * sizeof(T) > near; ++k)
        for (int b = 0; b < layer.n_blocks; ++b) {
            const int row = layer.blocks[b].n_vec * Simd<T>::lanes;
            prefetch(weight_at(layer, b, next[k]), 2 * row);
            if (tempered)
                prefetch(
                    prior.hidden[0] + layer.blocks[b].offset / 2 + size_t(next[k]) * size_t(row),
                    row);
        }
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

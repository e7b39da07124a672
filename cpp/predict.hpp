// The forward pass over many rows: mean and variance of the network's output, without noise.
//
// Between two knots of a column every input of it is linear in the column, so that what the column
// adds to the sums (13)(14) of the first layer is linear and quadratic in it. With an input
// a p + b q, where (a, b) is the place of the value between the knots, and sums over the inputs,
//     m_a += a [sum p m_w] + b [sum q m_w],
//     v_a += a^2 [sum p^2 v_w] + 2ab [sum p q v_w] + b^2 [sum q^2 v_w].
// For many encoded rows the brackets are tabled for every interval, once for each network, and the
// places are found once for all networks.
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
static Status predict_rows(const PredictArgs<T>& args) {
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

// ---- Many encoded rows

constexpr int n_sums = 5;  // that are tabled for an interval

// Where a value is in its interval: the weights of p and q.
template <typename T>
struct Place {
    int interval;
    T a, b;
};

template <typename T>
struct Tabled {
    Network<T> net;
    T* sums;     // of each block of units, (n_intervals, n_sums, n_vec * lanes)
    bool* safe;  // (n_intervals,): no value there is too large
};

PROBPROP_INLINE int64_t count_intervals(const Basis& basis) {
    return basis.first_knot[basis.n_columns] + basis.n_columns;
}

// A row reads n_sums rows of the tables for a column, or else two for each input that is not 0.
static bool is_worth_tables(const Rows& rows) {
    if (rows.basis == nullptr || rows.filled.indptr != nullptr ||
        rows.X.n_rows < count_intervals(*rows.basis))
        return false;
    const int64_t *knots = rows.basis->first_knot, *terms = rows.basis->first_term;
    double listed = 0.0, tabled = 0.0;
    for (int c = 0; c < rows.basis->n_columns; ++c) {
        const int64_t first = knots[c] + c, last = knots[c + 1] + c + 1;
        const double n = double(last - first);
        listed += 2.0 * double(terms[last] - terms[first]) / n;
        for (int64_t i = first; i < last; ++i) tabled += terms[i + 1] > terms[i] ? n_sums / n : 0.0;
    }
    return tabled < listed;
}

// Call visit(interval, width) for every interval: the distance of its two knots; outermost ones,
// which have one knot, have the width 0. There p is the input at the knot, and q its slope.
template <typename Visit>
PROBPROP_INLINE void each_interval(const Basis& basis, Visit visit) {
    for (int c = 0; c < basis.n_columns; ++c) {
        const double* knots = basis.knots + basis.first_knot[c];
        const int64_t n = basis.first_knot[c + 1] - basis.first_knot[c];
        for (int64_t k = 0; k <= n; ++k)
            visit(basis.first_knot[c] + c + k, k > 0 && k < n ? knots[k] - knots[k - 1] : 0.0);
    }
}

template <typename T, int n_vec>
static void table_block(const T* weights, T* sums, const Basis& basis, const double* scale,
                        T inv_sqrt_n) {
    constexpr int lanes = Simd<T>::lanes;
    each_interval(basis, [&](int64_t interval, double width) {
        Vec<T> total[n_sums][n_vec] = {};
        for (int64_t t = basis.first_term[interval]; t < basis.first_term[interval + 1]; ++t) {
            const int row = basis.input[t];
            const double left = basis.at_origin[t], by = scale == nullptr ? 1.0 : scale[row];
            const double right = width > 0.0 ? left + basis.slope[t] * width : basis.slope[t];
            const T p = T(left / by) * inv_sqrt_n, q = T(right / by) * inv_sqrt_n;
            const T* at = weights + size_t(row) * (2 * n_vec * lanes);
            PROBPROP_UNROLL
            for (int b = 0; b < n_vec; ++b) {
                const Vec<T> m = load(at + b * lanes), v = load(at + (n_vec + b) * lanes);
                total[0][b] += m * p;
                total[1][b] += m * q;
                total[2][b] += v * (p * p);
                total[3][b] += v * (p * q);
                total[4][b] += v * (q * q);
            }
        }
        T* out = sums + size_t(interval) * (n_sums * n_vec * lanes);
        for (int k = 0; k < n_sums; ++k)
            for (int b = 0; b < n_vec; ++b) store(out + (k * n_vec + b) * lanes, total[k][b]);
    });
}

template <typename T, int n_vec>
static void placed_block(const T* sums, const T* bias, const Place<T>* places, int n_places,
                         T inv_sqrt_n, T* m_a, T* v_a) {
    constexpr int lanes = Simd<T>::lanes;
    Vec<T> sum_m[n_vec], sum_v[n_vec];
    PROBPROP_UNROLL
    for (int k = 0; k < n_vec; ++k) {
        sum_m[k] = load(bias + k * lanes) * inv_sqrt_n;
        sum_v[k] = load(bias + (n_vec + k) * lanes) * (inv_sqrt_n * inv_sqrt_n);
    }
    for (int c = 0; c < n_places; ++c) {
        const T a = places[c].a, b = places[c].b;
        const T aa = a * a, ab = T(2) * a * b, bb = b * b;
        const T* at = sums + size_t(places[c].interval) * (n_sums * n_vec * lanes);
        PROBPROP_UNROLL
        for (int k = 0; k < n_vec; ++k) {
            sum_m[k] += load(at + k * lanes) * a;
            sum_v[k] += load(at + (2 * n_vec + k) * lanes) * aa;
            sum_m[k] += load(at + (n_vec + k) * lanes) * b;
            sum_v[k] += load(at + (3 * n_vec + k) * lanes) * ab;
            sum_v[k] += load(at + (4 * n_vec + k) * lanes) * bb;
        }
    }
    PROBPROP_UNROLL
    for (int k = 0; k < n_vec; ++k) {
        store(m_a + k * lanes, sum_m[k]);
        store(v_a + k * lanes, sum_v[k]);
    }
}

// Table the first layer, or sum (13)(14) for a row with these places.
template <typename T, typename Work>
PROBPROP_INLINE void each_block(const Tabled<T>& own, int64_t n_intervals, Work work) {
    const HiddenLayer<T>& layer = own.net.hidden[0];
    for (int b = 0; b < layer.n_blocks; ++b) {
        const int first = layer.blocks[b].first * Simd<T>::lanes;
        T* sums = own.sums + size_t(n_intervals) * n_sums * size_t(first);
        work(b, layer.blocks[b].n_vec, sums, layer.m_a + first, layer.v_a + first);
    }
}

template <typename T>
static void fill_table(Tabled<T>& own, const PredictArgs<T>& args, T inv_sqrt_n) {
    const Basis& basis = *args.X.basis;
    const double* scale = args.X_scaling.scale;
    each_block(own, count_intervals(basis), [&](int b, int n_vec, T* sums, T*, T*) {
        const T* w = weight_at(own.net.hidden[0], b, 0);
        switch (n_vec) {
            case 1: table_block<T, 1>(w, sums, basis, scale, inv_sqrt_n); break;
            case 2: table_block<T, 2>(w, sums, basis, scale, inv_sqrt_n); break;
            case 3: table_block<T, 3>(w, sums, basis, scale, inv_sqrt_n); break;
            default: table_block<T, 4>(w, sums, basis, scale, inv_sqrt_n);
        }
    });
    each_interval(basis, [&](int64_t interval, double width) {
        bool safe = scale == nullptr || width > 0.0;
        for (int64_t t = basis.first_term[interval]; t < basis.first_term[interval + 1]; ++t) {
            const double ends[] = {basis.at_origin[t], basis.at_origin[t] + basis.slope[t] * width};
            for (double end : ends)
                safe &= scale == nullptr ||
                        __builtin_fabs(end / scale[basis.input[t]]) <= args.X_scaling.largest;
        }
        own.safe[interval] = safe;
    });
}

// The moments of row i at its places; false where it is too large.
template <typename T, typename Activation>
static bool forward_placed(Tabled<T>& own, const PredictArgs<T>& args, int64_t i,
                           const Place<T>* places, int n_places, T inv_sqrt_n) {
    bool safe = true;
    for (int c = 0; c < n_places; ++c) safe &= own.safe[places[c].interval];
    if (!safe && !read_listed<T>(args.X, args.X_scaling, i, inv_sqrt_n, own.net.next)) return false;
    const HiddenLayer<T>& layer = own.net.hidden[0];
    each_block(own, count_intervals(*args.X.basis), [&](int b, int n_vec, T* sums, T* m_a, T* v_a) {
        const T* bias = weight_at(layer, b, layer.n_in);
        switch (n_vec) {
            case 1: placed_block<T, 1>(sums, bias, places, n_places, inv_sqrt_n, m_a, v_a); break;
            case 2: placed_block<T, 2>(sums, bias, places, n_places, inv_sqrt_n, m_a, v_a); break;
            case 3: placed_block<T, 3>(sums, bias, places, n_places, inv_sqrt_n, m_a, v_a); break;
            default: placed_block<T, 4>(sums, bias, places, n_places, inv_sqrt_n, m_a, v_a);
        }
    });
    finish_forward<T, Activation, false>(own.net, args.m + i * own.net.n_out,
                                         args.v + i * own.net.n_out);
    return true;
}

// The places of row i in intervals where an input is not 0; returns how many.
template <typename T>
static int place_row(const Rows& rows, int64_t i, Place<T>* places) {
    const Basis& basis = *rows.basis;
    int n_places = 0;
    for (int c = 0; c < basis.n_columns; ++c) {
        const double x = entry(rows.X, i, c);
        const int64_t first = basis.first_knot[c], n = basis.first_knot[c + 1] - first;
        const double* knots = basis.knots + first;
        const int64_t k = interval_of(x, knots, n), interval = first + c + k;
        const double along = x - basis.origin[interval];
        const bool inner = k > 0 && k < n;
        const double b = inner ? along / (knots[k] - knots[k - 1]) : along;
        places[n_places] = {int(interval), T(inner ? 1.0 - b : 1.0), T(b)};
        n_places += basis.first_term[interval + 1] > basis.first_term[interval] ? 1 : 0;
    }
    return n_places;
}

template <typename T, typename Activation>
static Status predict_tabled(const PredictArgs<T>* calls, int n_calls) {
    const PredictArgs<T>& first = calls[0];
    const Rows& rows = first.X;
    const int n_columns = rows.basis->n_columns;
    const int64_t n_intervals = count_intervals(*rows.basis);
    const int at_once = n_columns < 4096 ? 4096 / n_columns : 1;
    Arena arena;
    Tabled<T>* networks = nullptr;
    Place<T>* places = nullptr;
    int* n_places = nullptr;
    for (int pass = 0; pass < 2; ++pass) {  // measure, then lay out
        if (pass == 1 && !arena.reserve()) return Status::no_memory;
        networks = arena.take<Tabled<T>>(size_t(n_calls));
        places = arena.take<Place<T>>(size_t(at_once) * size_t(n_columns));
        n_places = arena.take<int>(size_t(at_once));
        for (int s = 0; s < n_calls; ++s) {
            const Network<T> net = lay_out<T>(arena, calls[s].sizes, calls[s].n_layers, false, 0);
            const size_t units = size_t(ceil_div(calls[s].sizes[1], Simd<T>::lanes));
            T* sums = arena.take<T>(size_t(n_intervals) * n_sums * units * Simd<T>::lanes);
            bool* safe = arena.take<bool>(size_t(n_intervals));
            if (networks != nullptr) networks[s] = {net, sums, safe};
        }
    }
    const T inv_sqrt_n = T(1) / T(__builtin_sqrt(double(first.sizes[0] + 1)));
    const FlushDenormals flush;
    for (int s = 0; s < n_calls; ++s) {
        T *m_w = const_cast<T*>(calls[s].m_w), *v_w = const_cast<T*>(calls[s].v_w);
        copy_weights<T, true>(networks[s].net, m_w, v_w);
        fill_table(networks[s], calls[s], inv_sqrt_n);
    }
    int64_t poll_at = first.poll_every;
    for (int64_t start = 0; start < rows.X.n_rows; start += at_once) {
        if (start * n_calls >= poll_at) {
            if (!first.keep_going(first.context)) return Status::interrupted;
            poll_at += first.poll_every;
        }
        const int64_t left = rows.X.n_rows - start;
        const int n = left < at_once ? int(left) : at_once;
        for (int i = 0; i < n; ++i)
            n_places[i] = place_row(rows, start + i, places + i * n_columns);
        for (int s = 0; s < n_calls; ++s)
            for (int i = 0; i < n; ++i)
                if (!forward_placed<T, Activation>(networks[s], calls[s], start + i,
                                                   places + i * n_columns, n_places[i], inv_sqrt_n))
                    return Status::too_large;
    }
    return Status::ok;
}

// Networks that see the same rows.
template <typename T, typename Activation>
static Status predict(const PredictArgs<T>* calls, int n_calls) {
    bool tabled = is_worth_tables(calls[0].X);
    for (int s = 0; s < n_calls; ++s) tabled &= calls[s].n_layers > 1 && calls[s].X_var == nullptr;
    if (tabled) return predict_tabled<T, Activation>(calls, n_calls);
    for (int s = 0; s < n_calls; ++s) {
        const Status status = predict_rows<T, Activation>(calls[s]);
        if (status != Status::ok) return status;
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// One ADF pass: forward, log Z, backward, update, point after point ([PBP15] section 3.3).
// The readable twin is src/probprop/reference/adf.py.
//
// The gradient of one point is of rank one, so nothing of weight size is ever stored: with
// z_m = m_z/sqrt(n), z_v = v_z/n, z_e2 = (m_z^2 + v_z)/n of the input row and d_m, d_v of the
// unit, dlogZ_dm_w = d_m z_m + 2 d_v m_w z_v and dlogZ_dv_w = d_v z_e2.
#pragma once

#include "forward.hpp"
#include "gamma.hpp"
#include "kernel.hpp"
#include "likelihood.hpp"
#include "memory.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// What becomes of the weights: nothing (a prediction), Eq. (6) alone, or Eqs. (6)(7). It is a
// template parameter, so that none of them pays for the others.
enum class Update { none, mean, mean_and_variance };

// The rare case: where v_new is not above the floor or not finite, the old m and v stay. Both
// arrays hold n_vec vectors of m, then of v; they pass through memory so that in the ordinary
// case all of it stays in registers. Returns how many weights were undone.
template <typename T>
static __attribute__((noinline, cold)) int undo(const T* old, T* updated, int n_vec) {
    int undone = 0;
    for (int i = 0; i < n_vec * Simd<T>::lanes; ++i) {
        T& v_new = updated[n_vec * Simd<T>::lanes + i];
        if (v_new > Simd<T>::v_floor && v_new < T(__builtin_inf())) continue;
        updated[i] = old[i];
        v_new = old[n_vec * Simd<T>::lanes + i];
        ++undone;
    }
    return undone;
}

// Check n_vec updated vectors, undoing where needed.
template <typename T, int n_vec>
PROBPROP_INLINE int check_updates(const Vec<T>* m, const Vec<T>* v, Vec<T>* m_new, Vec<T>* v_new) {
    Mask<T> good = all_lanes<T>;
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) good = lanes_within(v_new[b], Simd<T>::v_floor, good);
    if (PROBPROP_LIKELY(good == all_lanes<T>)) return 0;
    Vec<T> old[2 * n_vec], updated[2 * n_vec];
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        old[b] = m[b];
        old[n_vec + b] = v[b];
        updated[b] = m_new[b];
        updated[n_vec + b] = v_new[b];
    }
    const int undone =
        undo<T>(reinterpret_cast<const T*>(old), reinterpret_cast<T*>(updated), n_vec);
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        m_new[b] = updated[b];
        v_new[b] = updated[n_vec + b];
    }
    return undone;
}

// ---- The first layer: its inputs have no variance, so (6)(7) are m + p d_m and v - p^2 c with
// p = v x/sqrt(n), c = d_m^2 - 2 d_v. The update of one point and the forward of the next are
// fused: the weights are read once and written once per point.

// Apply the update of the point in x; then sum (13)(14) for the point in x_next.
template <typename T, int n_vec, Update update>
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
        if constexpr (update == Update::mean) {
            PROBPROP_UNROLL
            for (int b = 0; b < n_vec; ++b) {
                const Vec<T> p = v[b] * x[row];
                store(w + b * lanes, m[b] = m[b] + p * d_m[b]);
            }
        } else if constexpr (update == Update::mean_and_variance) {
            Vec<T> m_new[n_vec], v_new[n_vec];
            PROBPROP_UNROLL
            for (int b = 0; b < n_vec; ++b) {
                const Vec<T> p = v[b] * x[row];
                m_new[b] = m[b] + p * d_m[b];
                v_new[b] = v[b] - (p * c[b]) * p;
            }
            undone += check_updates<T, n_vec>(m, v, m_new, v_new);
            PROBPROP_UNROLL
            for (int b = 0; b < n_vec; ++b) {
                store(w + b * lanes, m[b] = m_new[b]);
                store(w + (n_vec + b) * lanes, v[b] = v_new[b]);
            }
        }
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            sum_m[b] += m[b] * x_next[row];
            sum_v[b] += v[b] * x2_next[row];
        }
    }
    PROBPROP_UNROLL
    for (int b = 0; b < n_vec; ++b) {
        store(m_a + b * lanes, sum_m[b]);
        store(v_a + b * lanes, sum_v[b]);
    }
    return undone;
}

template <typename T, Update update>
static int64_t first_layer(Network<T>& net) {
    HiddenLayer<T>& layer = net.hidden[0];
    int64_t undone = 0;
    for (int b = 0; b < layer.n_blocks; ++b) {
        const int first = layer.blocks[b].first * Simd<T>::lanes;
#define PROBPROP_BLOCK(n)                                                                       \
    undone += first_layer_block<T, n, update>(weight_at(layer, b, 0), layer.n_in + 1, net.x,    \
                                              layer.d_m + first, layer.d_v + first, net.x_next, \
                                              net.x2_next, layer.m_a + first, layer.v_a + first)
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

// Gradients with respect to the outputs z of a layer become those of its activations, S(15)(16).
template <typename T, bool first>
PROBPROP_INLINE void through_activation(const Network<T>& net, HiddenLayer<T>& layer) {
    constexpr int lanes = Simd<T>::lanes;
    for (int i = 0; i < layer.n_vec; ++i) {
        const int at = i * lanes;
        const Vec<T> d_z_m = load(net.d_z_m + at), d_z_v = load(net.d_z_v + at);
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
}

// Update one output unit's weights, if asked; leave dlogZ/dm_z, dlogZ/dv_z of its inputs, or add
// to them.
template <typename T, Update update, bool add>
PROBPROP_INLINE int64_t output_unit_backward(Network<T>& net, const LayerInputs<T>& in, T* out_m,
                                             T* out_v, T d_m, T d_v) {
    constexpr int lanes = Simd<T>::lanes;
    const T inv_n = T(1) / T(net.out_n_in);
    const T inv_sqrt_n = T(1) / T(__builtin_sqrt(double(net.out_n_in)));
    const T d_v2 = T(2) * d_v;
    int64_t undone = 0;
    for (int at = 0; at < net.out_n_vec * lanes; at += lanes) {
        const Vec<T> m = load(out_m + at), v = load(out_v + at);
        const Vec<T> z_m = load(in.z_m + at);
        if constexpr (update != Update::none) {
            const Vec<T> p = v * (d_m * z_m + (d_v2 * m) * load(in.z_v + at));  // v dlogZ_dm_w
            Vec<T> m_new = m + p;
            if constexpr (update == Update::mean_and_variance) {
                Vec<T> v_new = v - p * p + (d_v2 * load(in.z_e2 + at) * v) * v;
                undone += check_updates<T, 1>(&m, &v, &m_new, &v_new);
                store(out_v + at, v_new);
            }
            store(out_m + at, m_new);
        }
        Vec<T> d_z_m = (d_m * m + (d_v2 * z_m) * v) * inv_sqrt_n;
        Vec<T> d_z_v = d_v * (m * m + v) * inv_n;
        if constexpr (add) {
            d_z_m += load(net.d_z_m + at);
            d_z_v += load(net.d_z_v + at);
        }
        store(net.d_z_m + at, d_z_m);
        store(net.d_z_v + at, d_z_v);
    }
    return undone;
}

// The whole output layer, with the derivatives in d_m_out and d_v_out.
template <typename T, Update update>
PROBPROP_INLINE int64_t output_backward(Network<T>& net, const T* x2) {
    const LayerInputs<T> in = inputs_of(net, net.n_hidden, x2);
    int64_t undone = output_unit_backward<T, update, false>(net, in, net.out_m, net.out_v,
                                                            T(net.d_m_out[0]), T(net.d_v_out[0]));
    const int stride = net.out_n_vec * Simd<T>::lanes;
    for (int k = 1; k < net.n_out; ++k)
        undone += output_unit_backward<T, update, true>(net, in, net.out_m + k * stride,
                                                        net.out_v + k * stride, T(net.d_m_out[k]),
                                                        T(net.d_v_out[k]));
    return undone;
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
template <typename T, int n_vec, bool add, Update update>
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
            if constexpr (update != Update::none) {
                const Vec<T> p = v[b] * (d_m[b] * z_m[row] + d_v2_m * z_v[row]);  // v dlogZ_dm_w
                m_new[b] = m[b] + p;
                if constexpr (update == Update::mean_and_variance)
                    v_new[b] = v[b] - p * p + (d_v2_v * z_e2[row]) * v[b];
            }
        }
        if constexpr (update == Update::mean_and_variance)
            undone += check_updates<T, n_vec>(m, v, m_new, v_new);
        PROBPROP_UNROLL
        for (int b = 0; b < n_vec; ++b) {
            if constexpr (update != Update::none) store(w + b * lanes, m_new[b]);
            if constexpr (update == Update::mean_and_variance)
                store(w + (n_vec + b) * lanes, v_new[b]);
        }
        store(g_m + row * lanes, sum_m);
        store(g_v + row * lanes, sum_v);
    }
    return undone;
}

template <typename T, Update update>
static int64_t middle_backward(Network<T>& net, int l, const T* x2) {
    constexpr int lanes = Simd<T>::lanes;
    HiddenLayer<T>& layer = net.hidden[l];
    const LayerInputs<T> in = inputs_of(net, l, x2);
    const int rows = layer.n_in + 1;
    int64_t undone = 0;
    for (int b = 0; b < layer.n_blocks; ++b) {
        T* w = weight_at(layer, b, 0);
        const T* d_m = layer.d_m + layer.blocks[b].first * lanes;
        const T* d_v = layer.d_v + layer.blocks[b].first * lanes;
#define PROBPROP_BLOCK(n)                                                                       \
    undone += b == 0 ? middle_block<T, n, false, update>(w, rows, in.z_m, in.z_v, in.z_e2, d_m, \
                                                         d_v, layer.g_m, layer.g_v)             \
                     : middle_block<T, n, true, update>(w, rows, in.z_m, in.z_v, in.z_e2, d_m,  \
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

// The noise Gamma (9)(10), by quadrature where the closed form is not sound.
PROBPROP_INLINE int64_t update_noise(double& alpha, double& beta, double d2, double v) {
    const GammaShapeRate delta = gamma_increments(alpha, beta, d2, v);
    GammaShapeRate updated = {alpha + delta.alpha, beta + delta.beta};
    const bool closed_form = PROBPROP_LIKELY(is_sound(alpha, beta, d2, updated));
    if (!closed_form) updated = gamma_moments_by_quadrature(alpha, beta, d2, v);
    alpha = updated.alpha;
    beta = updated.beta;
    return closed_form ? 0 : 1;
}

// log Z of a point, Eq. (12) or that of another likelihood; its derivatives by the moments of the
// outputs are left in d_m_out and d_v_out. Not finite: the point cannot be absorbed.
template <typename T, Likelihood likelihood>
PROBPROP_INLINE double evidence(Network<T>& net, const double* y, double alpha, double beta) {
    if constexpr (likelihood == Likelihood::probit)
        return log_Z_probit(net.m_out, net.v_out, y, net.n_out, net.d_m_out, net.d_v_out);
    if constexpr (likelihood == Likelihood::multinomial)
        return log_Z_multinomial(net.m_out, net.v_out, int(y[0]), net.n_out, net.d_m_out,
                                 net.d_v_out, net.scratch);
    const double d = y[0] - net.m_out[0];
    const double s = net.v_out[0] + beta / (alpha - 1.0);
    const double d_m = d / s;
    net.d_m_out[0] = d_m;
    net.d_v_out[0] = 0.5 * (d_m * d_m - 1.0 / s);
    const double precision = alpha / beta;  // the quadrature works in units of the noise
    const bool finite =
        __builtin_isfinite(d * d * precision) && __builtin_isfinite(net.v_out[0] * precision);
    return PROBPROP_LIKELY(finite) ? -0.5 * (log(6.283185307179586 * s) + d * d / s)
                                   : __builtin_nan("");
}

template <typename T, Update update, Likelihood likelihood>
static Status absorb_all(const AdfArgs<T>& args, AdfResult& result) {
    Arena arena;
    Network<T> net = allocate<T>(arena, args.sizes, args.n_layers);
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
    const int y_columns = likelihood == Likelihood::multinomial ? 1 : net.n_out;
    const T x_scale = T(1) / T(__builtin_sqrt(double(n_features + 1)));
    double alpha = args.alpha, beta = args.beta;
    result = AdfResult{};
    Status status = Status::ok;

    const auto row_of = [&](int64_t t) { return args.X + args.order[t] * n_features; };
    if (args.n_points > 0) {
        set_point(row_of(0), n_features, x_scale, net.x_next, net.x2_next);
        if (net.n_hidden > 0) first_layer<T, Update::none>(net);
    }
    for (int64_t t = 0; t < args.n_points; ++t) {
        if (t % args.poll_every == 0 && !args.keep_going(args.context)) {
            status = Status::interrupted;
            break;
        }
        if (t + 3 < args.n_points) {
            const char* row = reinterpret_cast<const char*>(row_of(t + 3));
            for (size_t byte = 0; byte < static_cast<size_t>(n_features) * sizeof(T); byte += 64)
                __builtin_prefetch(row + byte);
        }
        if (bounded && t % memory.every == 0) {
            const int64_t left = args.n_points - t;
            const double share =
                share_of(left < memory.every ? left : memory.every, memory.capacity);
            give_back(net, prior, T(share));
            alpha = (1.0 - share) * alpha + share * memory.alpha;
            beta = (1.0 - share) * beta + share * memory.beta;
            if (net.n_hidden > 0) first_layer<T, Update::none>(net);  // with the new weights
        }
        swap(net.x, net.x_next);
        finish_forward<T, true>(net, net.x2_next, net.m_out, net.v_out);
        const double* y = args.y + args.order[t] * y_columns;
        const double log_Z = evidence<T, likelihood>(net, y, alpha, beta);
        if (PROBPROP_LIKELY(__builtin_isfinite(log_Z))) {
            result.log_Z_sum += log_Z;
            result.n_undone += output_backward<T, update>(net, net.x2_next);
            for (int l = net.n_hidden - 1; l > 0; --l) {
                through_activation<T, false>(net, net.hidden[l]);
                result.n_undone += middle_backward<T, update>(net, l, net.x2_next);
            }
            if (net.n_hidden > 0) through_activation<T, true>(net, net.hidden[0]);
            if constexpr (likelihood == Likelihood::gaussian) {
                const double d = y[0] - net.m_out[0];
                result.n_guarded += update_noise(alpha, beta, d * d, net.v_out[0]);
            }
        } else {  // the point is left out whole
            result.n_skipped += 1;
            if (net.n_hidden > 0) {
                const size_t bytes = static_cast<size_t>(net.hidden[0].n_vec) * sizeof(Vec<T>);
                memset(net.hidden[0].d_m, 0, bytes);
                memset(net.hidden[0].d_v, 0, bytes);
            }
        }

        // After the last point x_next is stale: the sums of that forward are not used.
        if (t + 1 < args.n_points)
            set_point(row_of(t + 1), n_features, x_scale, net.x_next, net.x2_next);
        if (net.n_hidden > 0) result.n_undone += first_layer<T, update>(net);
    }
    if (status == Status::ok) copy_weights<T, false>(net, args.m_w, args.v_w);
    result.alpha = alpha;
    result.beta = beta;
    return status;
}

template <typename T>
static Status adf_pass(const AdfArgs<T>& args, AdfResult& result) {
    constexpr Update both = Update::mean_and_variance;
    switch (args.likelihood) {
        case Likelihood::probit: return absorb_all<T, both, Likelihood::probit>(args, result);
        case Likelihood::multinomial:
            return absorb_all<T, both, Likelihood::multinomial>(args, result);
        default: break;
    }
    return args.update_variance ? absorb_all<T, both, Likelihood::gaussian>(args, result)
                                : absorb_all<T, Update::mean, Likelihood::gaussian>(args, result);
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

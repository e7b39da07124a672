// The probabilities of the classes of many rows.
#pragma once

#include "arena.hpp"
#include "kernel.hpp"
#include "likelihoods/multinomial.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// ---- Many classes: one grid of nodes serves all of them
//
// With G(t) = prod_k Phi(z_k) over all classes, the integrand of class c is
//
//     f_c(t) = G(t) ratio_c(t)/s_c,   ratio = phi/Phi,   z_k = t inv_s_k + shift_k,
//
// so that a node costs as much as it does for a single class. Slopes and scales of all f_c follow
// from the same sums: (log f_c)' = H - gap_c/s_c with H = (log G)', and -(log f_c)'' is the sum of
// the others' curvatures plus 1/s_c^2. All scales grow from left to right, see
// reference/likelihoods.py. Nodes have steps of the smallest scale at the left end as
// far as the last top, and longer steps beyond it:
//
//     t(x) = left + a (x + 8 (exp((x - x_2)/8) - exp(-x_2/8))),   x = 0, dx, 2 dx, ...

struct SharedRule {
    static constexpr int fewest = 33;   // classes from which on the grid is used
    static constexpr double dx = 0.35;  // in units of the scale at the left end
    static constexpr double widen = 8.0;
    static constexpr double drop = 40.0;        // f is negligible at exp(-40) of its top
    static constexpr double lowest = -500.0;    // log p below: phi might have underflowed
    static constexpr double most_nodes = 32.0;  // times the classes: above, each class on its own
    static constexpr int per_log = 16;          // mantissas whose product cannot underflow
};

struct SharedGrid {
    int n;                  // padded to whole vectors with z = 40, where ratio is 0 and Phi is 1
    double *inv_s, *shift;  // z_k = t inv_s_k + shift_k, t counted from the largest mean
    double *ratio, *gap, *curved;  // at one t: ratio_k, gap_k/s_k, 1/s_k^2 - curvature of log Phi_k
    double *log_f, *log_sum;
    VecF64 *ratios, *sums;  // a vector of nodes per class
};

PROBPROP_INLINE size_t shared_scratch(int n) {
    return padded_classes(n) * (7 + 2 * Simd<double>::lanes);
}

PROBPROP_INLINE SharedGrid shared_grid(const double* m, const double* v, int n, double* scratch) {
    const size_t padded = padded_classes(n);
    VecF64* vectors = reinterpret_cast<VecF64*>(scratch);
    scratch += 2 * padded * Simd<double>::lanes;
    double* arrays[7];
    for (int i = 0; i < 7; ++i) arrays[i] = scratch + size_t(i) * padded;
    const SharedGrid g = {int(padded), arrays[0], arrays[1], arrays[2], arrays[3],
                          arrays[4],   arrays[5], arrays[6], vectors,   vectors + padded};
    double highest = m[0];
    for (int k = 1; k < n; ++k) highest = m[k] > highest ? m[k] : highest;
    for (int k = 0; k < g.n; ++k) {
        g.inv_s[k] = k < n ? 1.0 / __builtin_sqrt(1.0 + v[k]) : 0.0;
        g.shift[k] = k < n ? (highest - m[k]) * g.inv_s[k] : 40.0;
    }
    return g;
}

// log G; (log G)'; the smallest and the largest of gap_c/s_c, and of -(log f_c)''.
struct SharedPoint {
    double log_G, slope, least_gap, most_gap, least_curvature, most_curvature;
};

PROBPROP_INLINE SharedPoint evaluate(SharedGrid& g, int n, double t) {
    VecF64 exponent = {}, slope = {}, curvature = {};
    double log_mantissa = 0.0, product = 1.0;
    for (int k = 0; k < g.n; k += Simd<double>::lanes) {
        const VecF64 inv_s = load(g.inv_s + k);
        const VecF64 z = t * inv_s + load(g.shift + k);
        const NormalParts parts = normal_parts(z);
        exponent += lower_exponent(z);
        slope += parts.ratio * inv_s;
        const VecF64 own = parts.ratio * parts.gap * inv_s * inv_s;
        curvature += own;
        store(g.ratio + k, parts.ratio);
        store(g.gap + k, parts.gap * inv_s);
        store(g.curved + k, inv_s * inv_s - own);
        for (int i = 0; i < Simd<double>::lanes; ++i) product *= parts.mantissa[i];
        if (product < 1e-150) {
            log_mantissa += log(product);
            product = 1.0;
        }
    }
    const double total = sum_lanes<double>(curvature);
    SharedPoint at = {sum_lanes<double>(exponent) + log_mantissa + log(product),
                      sum_lanes<double>(slope),
                      g.gap[0],
                      g.gap[0],
                      total + g.curved[0],
                      total + g.curved[0]};
    for (int k = 1; k < n; ++k) {
        const double gap = g.gap[k], curved = total + g.curved[k];
        at.least_gap = gap < at.least_gap ? gap : at.least_gap;
        at.most_gap = gap > at.most_gap ? gap : at.most_gap;
        at.least_curvature = curved < at.least_curvature ? curved : at.least_curvature;
        at.most_curvature = curved > at.most_curvature ? curved : at.most_curvature;
    }
    return at;
}

// log f_c of all classes but for log 1/s_c; phi may have underflowed.
PROBPROP_INLINE void log_integrands(SharedGrid& g, int n, double t, double* log_f) {
    const SharedPoint at = evaluate(g, n, t);
    for (int k = 0; k < n; ++k) {
        const double z = t * g.inv_s[k] + g.shift[k];
        log_f[k] = at.log_G + (z > 30.0 ? -0.5 * z * z + log(density_at_0) : log(g.ratio[k]));
    }
}

// Where the first f_c, or the last, has its top: between low and high, to within `near`.
PROBPROP_INLINE void find_top(SharedGrid& g, int n, bool first, double near, double& low,
                              double& high) {
    for (int i = 0; i < 60 && high - low > near; ++i) {
        const double t = 0.5 * (low + high);
        const SharedPoint at = evaluate(g, n, t);
        (at.slope > (first ? at.most_gap : at.least_gap) ? low : high) = t;
    }
}

// Left of it all f_c are negligible.
PROBPROP_INLINE double find_left(SharedGrid& g, int n, double top, double* log_f_top) {
    // Curvatures fall with t: f_c falls at least as a Gaussian does with its scale at the top.
    const double least_curvature = evaluate(g, n, top).least_curvature;
    double low = top - __builtin_sqrt(2.0 * SharedRule::drop / least_curvature), high = top;
    log_integrands(g, n, top, log_f_top);
    for (int i = 0; i < 6; ++i) {
        const double t = 0.5 * (low + high);
        log_integrands(g, n, t, g.log_f);
        bool negligible = true;
        for (int k = 0; k < n; ++k) negligible &= log_f_top[k] - g.log_f[k] >= SharedRule::drop;
        (negligible ? low : high) = t;
    }
    return low;
}

// Add what was summed up to log_sum; the sums are relative to exp(reference).
PROBPROP_INLINE void flush(SharedGrid& g, int n, double reference) {
    for (int k = 0; k < n; ++k) {
        const double sum = sum_lanes<double>(g.sums[k]);
        g.sums[k] = VecF64{};
        if (!(sum > 0.0)) continue;
        const double more = log(sum) + reference, before = g.log_sum[k];
        const double high = more > before ? more : before, low = more > before ? before : more;
        g.log_sum[k] = high + log1p(exp(low - high));
    }
}

// log p of all classes; false if the classes lie so far apart that one grid does not pay.
static bool integrate_classes(const double* m, const double* v, int n, double* log_p,
                              double* scratch) {
    constexpr int lanes = Simd<double>::lanes;
    SharedGrid g = shared_grid(m, v, n, scratch);
    double farthest = 0.0, narrowest = 0.0, widest = 1.0;  // shift s, 1/s, s
    for (int k = 0; k < n; ++k) {
        const double s = 1.0 / g.inv_s[k], below = g.shift[k] * s;
        farthest = below > farthest ? below : farthest;
        narrowest = g.inv_s[k] > narrowest ? g.inv_s[k] : narrowest;
        widest = s > widest ? s : widest;
    }
    if (!(farthest < 1e6 * widest)) return false;
    double above = 4.0 * widest;
    for (int i = 0; i < 60; ++i, above *= 2.0) {
        const SharedPoint at = evaluate(g, n, above);
        if (!(at.slope > at.least_gap)) break;
    }
    const double near = 0.25 / (narrowest * __builtin_sqrt(double(n)));
    double first_low = -farthest, first_high = above;
    find_top(g, n, true, near, first_low, first_high);
    double last_low = first_low, last_high = above;
    find_top(g, n, false, near, last_low, last_high);
    const double left = find_left(g, n, first_low, log_p);
    const double a = 1.0 / __builtin_sqrt(evaluate(g, n, left).most_curvature);
    const double x_2 = (last_high - left) / a;
    if (!(x_2 < SharedRule::dx * SharedRule::most_nodes * n)) return false;

    for (int k = 0; k < n; ++k) {
        g.sums[k] = VecF64{};
        g.log_sum[k] = -1e300;
    }
    VecF64 x;
    for (int i = 0; i < lanes; ++i) x[i] = i * SharedRule::dx;
    const double at_left = exp(-x_2 / SharedRule::widen);
    const int max_vectors = int(2.0 * SharedRule::most_nodes * n) / lanes + 4096;
    double reference = 0.0;
    bool begun = false, ended = false;
    for (int j = 0; j < max_vectors && !ended; ++j, x += lanes * SharedRule::dx) {
        VecF64 grown, log_G = {};
        for (int i = 0; i < lanes; ++i) grown[i] = exp((x[i] - x_2) / SharedRule::widen);
        const VecF64 t = left + a * (x + SharedRule::widen * (grown - at_left));
        VecF64 product = splat(1.0);
        for (int k = 0; k < n; ++k) {
            const VecF64 z = t * g.inv_s[k] + g.shift[k];
            const NormalParts parts = normal_parts(z);
            log_G += lower_exponent(z);
            product *= parts.mantissa;
            g.ratios[k] = parts.ratio;
            if (k % SharedRule::per_log == SharedRule::per_log - 1 || k == n - 1) {
                for (int i = 0; i < lanes; ++i) log_G[i] += log(product[i]);
                product = splat(1.0);
            }
        }
        const double highest = log_G[lanes - 1];  // G rises
        if (!(highest - log_G[0] < 300.0)) return false;
        if (!begun || highest - reference > 200.0) {
            if (begun) flush(g, n, reference);
            reference = highest;
            begun = true;
        }
        const VecF64 rises = min(log_G - highest, VecF64{});
        const VecF64 weight =
            exp_nonpositive<double>(rises) * exp(highest - reference) * (grown + 1.0);
        for (int k = 0; k < n; ++k) g.sums[k] += weight * g.ratios[k];
        if (t[0] > last_high) {
            ended = true;
            for (int k = 0; k < n && ended; ++k)
                ended = !(weight[lanes - 1] * g.ratios[k][lanes - 1] >
                          ClassRule::negligible * sum_lanes<double>(g.sums[k]));
        }
    }
    if (!ended) return false;
    flush(g, n, reference);
    for (int k = 0; k < n; ++k) {
        const double log_Z = g.log_sum[k] + log(a * SharedRule::dx * g.inv_s[k]);
        log_p[k] = log_Z > 0.0 ? 0.0 : log_Z;  // the rule's error must not lift Z above 1
    }
    return true;
}

// ---- All rows

// The log of the probability of every class, or of one, row by row.
static Status class_log_probabilities(const ClassArgs& args) {
    const int n = args.n_classes;
    Arena arena;
    arena.take<double>(class_scratch(n));
    arena.take<double>(shared_scratch(n));
    if (!arena.reserve()) return Status::no_memory;
    double* scratch = arena.take<double>(class_scratch(n));
    double* shared = arena.take<double>(shared_scratch(n));
    const FlushDenormals flush;
    for (int64_t row = 0; row < args.n_rows; ++row) {
        if (row % args.poll_every == 0 && !args.keep_going(args.context))
            return Status::interrupted;
        const double *m = args.m + row * n, *v = args.v + row * n;
        if (args.only != nullptr) {
            const int c = int(args.only[row]);
            args.log_p[row] = integrate_class<false>(m, v, c, n, nullptr, nullptr, scratch);
            continue;
        }
        double* log_p = args.log_p + row * n;
        const bool done = n >= SharedRule::fewest && integrate_classes(m, v, n, log_p, shared);
        for (int c = 0; c < n; ++c)
            if (!done || !(log_p[c] > SharedRule::lowest))
                log_p[c] = integrate_class<false>(m, v, c, n, nullptr, nullptr, scratch);
    }
    return Status::ok;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// Points read where they lie, and standardized on the way: (x - mean)/scale in double precision.
#pragma once

#include "kernel.hpp"
#include "simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

PROBPROP_INLINE double entry(const Matrix& a, int64_t row, int column) {
    const int64_t i = row * a.row_stride + column * a.column_stride;
    return a.single ? double(static_cast<const float*>(a.data)[i])
                    : static_cast<const double*>(a.data)[i];
}

PROBPROP_INLINE int64_t point_at(const Order& order, int64_t t) {
    if (order.narrow != nullptr) return order.narrow[t];
    return order.wide != nullptr ? order.wide[t] : t;
}

// Whether only inputs that are not 0 are looked at.
PROBPROP_INLINE bool is_listed(const Rows& rows) {
    return rows.indptr != nullptr || rows.basis != nullptr;
}

// The cache lines of row i, which random orders would wait for.
PROBPROP_INLINE void prefetch_row(const Matrix& a, int64_t i) {
    const int64_t width = a.single ? 4 : 8;
    const char* row = static_cast<const char*>(a.data) + i * a.row_stride * width;
    if (a.column_stride == 1) {
        const int64_t bytes = a.n_columns * width;
        for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(row + byte);
        __builtin_prefetch(row + bytes - 1);
    } else {
        for (int j = 0; j < a.n_columns; ++j) __builtin_prefetch(row + j * a.column_stride * width);
    }
}

// Where compressed row i begins, which `prefetch_row` reads.
PROBPROP_INLINE void prefetch_begin(const Rows& rows, int64_t i) {
    if (rows.indptr != nullptr) __builtin_prefetch(rows.indptr + i);
}
PROBPROP_INLINE void prefetch_row(const Rows& rows, int64_t i) {
    if (rows.indptr == nullptr) return prefetch_row(rows.X, i);
    const int64_t first = rows.indptr[i], width = rows.X.single ? 4 : 8;
    const int n = static_cast<int>(rows.indptr[i + 1] - first);
    prefetch(rows.indices + first, n);
    prefetch(static_cast<const char*>(rows.X.data) + first * width, n * static_cast<int>(width));
}

// The targets of point i, standardized; (n_columns,).
PROBPROP_INLINE void read_targets(const Matrix& y, const Scaling& scaling, int64_t i, double* out) {
    for (int k = 0; k < y.n_columns; ++k) {
        const double raw = entry(y, i, k);
        out[k] = scaling.mean == nullptr ? raw : (raw - scaling.mean[k]) / scaling.scale[k];
    }
}

// As many numbers as a vector of doubles has, which need not be aligned.
template <typename U>
struct Loose {
    typedef U Vec __attribute__((vector_size(Simd<double>::lanes * sizeof(U)), aligned(sizeof(U)),
                                 may_alias));
};
template <typename U>
PROBPROP_INLINE typename Loose<U>::Vec load_loose(const U* p) {
    return *reinterpret_cast<const typename Loose<U>::Vec*>(p);
}
template <typename U>
PROBPROP_INLINE void store_loose(U* p, typename Loose<U>::Vec a) {
    *reinterpret_cast<typename Loose<U>::Vec*>(p) = a;
}

// A point as the first layer sees it, (17): x/sqrt(n) and x^2/n of n - 1 inputs and the bias, which
// is the last. A list has only inputs that are not 0, and the bias, with their numbers; behind it
// are the filled inputs. With a variance x2 is (x^2 + variance)/n.
template <typename T>
struct Point {
    T *x, *x2;
    T* v;          // variance/n; 0 where an input is certain, and not read of lists
    int* input;    // null: all inputs, in their order
    int n;         // of a list, how many it has
    int n_filled;  // behind them
};

// The point i of rows that are not listed. False where an entry is too large. `dense`: the entries
// of a row lie side by side.
template <typename T, typename Source, bool dense, bool scaled>
static bool read_point(const Rows& rows, const Scaling& scaling, int64_t i, T inv_sqrt_n,
                       Point<T>& point) {
    constexpr int lanes = Simd<double>::lanes;
    const Matrix& X = rows.X;
    T* __restrict x = point.x;
    T* __restrict x2 = point.x2;
    const Source* __restrict row = static_cast<const Source*>(X.data) + i * X.row_stride;
    const double* __restrict mean = scaling.mean;
    const double* __restrict scale = scaling.scale;
    const double largest = scaling.largest;
    const int n = X.n_columns;
    x[n] = inv_sqrt_n;
    x2[n] = inv_sqrt_n * inv_sqrt_n;
    if (dense && scaled && n >= lanes) {  // the last vector may overlap the one before
        VecI64 beyond = {};
        for (int done = 0; done < n; done += lanes) {
            const int j = done + lanes <= n ? done : n - lanes;
            const VecF64 raw = __builtin_convertvector(load_loose<Source>(row + j), VecF64);
            const VecF64 exact = (raw - load_loose(mean + j)) / load_loose(scale + j);
            beyond |= abs<double>(exact) > largest;
            const auto z = __builtin_convertvector(exact, typename Loose<T>::Vec) * inv_sqrt_n;
            store_loose<T>(x + j, z);
            store_loose<T>(x2 + j, z * z);
        }
        int64_t any = 0;
        for (int k = 0; k < lanes; ++k) any |= beyond[k];
        return any == 0;
    }
    const int64_t stride = dense ? 1 : X.column_stride;
    int64_t beyond = 0;
    for (int j = 0; j < n; ++j) {
        T z;
        if constexpr (scaled) {
            const double exact = (double(row[j * stride]) - mean[j]) / scale[j];
            beyond |= __builtin_fabs(exact) > largest;
            z = T(exact) * inv_sqrt_n;
        } else {
            z = T(row[j * stride]) * inv_sqrt_n;
        }
        x[j] = z;
        x2[j] = z * z;
    }
    return beyond == 0;
}

// ---- Rows of which only inputs that are not 0 are looked at

// The interval of x between n ascending knots: how many of them are not above it. A few are
// counted, without a branch that would be mispredicted.
PROBPROP_INLINE int64_t interval_of(double x, const double* knots, int64_t n) {
    constexpr int64_t few = 64;
    int64_t below = 0, count = 0;
    for (; n > few; n -= n / 2) below += knots[below + n / 2 - 1] <= x ? n / 2 : 0;
    for (int64_t k = 0; k < n; ++k) count += knots[below + k] <= x ? 1 : 0;
    return below + count;
}

// Call visit(input, value, column, slope) for the inputs of row i that are not 0: the column that
// an input comes from, and its derivative by that.
template <typename Source, typename Visit>
PROBPROP_INLINE void each_compressed(const Rows& rows, int64_t i, Visit visit) {
    const Source* values = static_cast<const Source*>(rows.X.data);
    const int64_t last = rows.indptr[i + 1];
    for (int64_t k = rows.indptr[i]; k < last; ++k)
        visit(rows.indices[k], double(values[k]), rows.indices[k], 1.0);
}
template <typename Visit>
PROBPROP_INLINE void each_input(const Rows& rows, int64_t i, Visit visit) {
    if (rows.basis == nullptr) {
        if (rows.X.single) return each_compressed<float>(rows, i, visit);
        return each_compressed<double>(rows, i, visit);
    }
    const Basis& basis = *rows.basis;
    for (int c = 0; c < basis.n_columns; ++c) {
        const double x = entry(rows.X, i, c);
        if (rows.filled.indptr != nullptr && x != x) continue;
        const int64_t first = basis.first_knot[c], n = basis.first_knot[c + 1] - first;
        const int64_t interval = first + c + interval_of(x, basis.knots + first, n);
        const double along = x - basis.origin[interval];
        for (int64_t t = basis.first_term[interval]; t < basis.first_term[interval + 1]; ++t)
            visit(basis.input[t], basis.at_origin[t] + basis.slope[t] * along, c, basis.slope[t]);
    }
}

// The compressed row i as a list, where nothing has to be scaled, as in training.
template <typename T, typename Source>
static bool read_compressed(const Rows& rows, int64_t i, T inv_sqrt_n, Point<T>& point) {
    T* __restrict x = point.x, * __restrict x2 = point.x2;
    int* __restrict input = point.input;
    const int64_t first = rows.indptr[i];
    const int n = static_cast<int>(rows.indptr[i + 1] - first);
    const Source* __restrict values = static_cast<const Source*>(rows.X.data) + first;
    const int32_t* __restrict inputs = rows.indices + first;
    int missing = 0;
    for (int k = 0; k < n; ++k) {
        const T value = T(values[k]), z = value * inv_sqrt_n;
        missing |= value != value;
        input[k] = inputs[k];
        x[k] = z;
        x2[k] = z * z;
    }
    x[n] = inv_sqrt_n;
    x2[n] = inv_sqrt_n * inv_sqrt_n;
    input[n] = rows.X.n_columns;
    point.n = n + 1;
    return missing == 0;
}

// The point i as a list, or with all inputs where it has no room for one. False where an input is
// too large.
template <typename T>
static bool read_listed(const Rows& rows, const Scaling& scaling, int64_t i, T inv_sqrt_n,
                        Point<T>& point) {
    T* __restrict x = point.x, * __restrict x2 = point.x2;
    int* __restrict input = point.input;
    const int n_inputs = rows.basis != nullptr ? rows.basis->n_inputs : rows.X.n_columns;
    if (rows.basis == nullptr && input != nullptr && scaling.scale == nullptr)
        return rows.X.single ? read_compressed<T, float>(rows, i, inv_sqrt_n, point)
                             : read_compressed<T, double>(rows, i, inv_sqrt_n, point);
    T* const all_inputs[] = {x, x2, point.v};
    if (input == nullptr)
        for (T* all : all_inputs) memset(all, 0, static_cast<size_t>(n_inputs) * sizeof(T));
    const double* __restrict scale = scaling.scale;
    const double largest = scale == nullptr ? __builtin_inf() : scaling.largest;
    int n = 0;
    bool fits = true;
    const auto add = [&](int j, double value, int, double) {
        const double by = scale == nullptr ? 1.0 : scale[j];
        const double exact = by == 1.0 ? value : value / by;  // a division takes its time
        fits &= __builtin_fabs(exact) <= largest;
        const T z = T(exact) * inv_sqrt_n;
        const int at = input == nullptr ? j : n++;
        x[at] = z;
        x2[at] = z * z;
        if (input != nullptr) input[at] = j;
    };
    each_input(rows, i, add);
    const int bias = input == nullptr ? n_inputs : n;
    x[bias] = inv_sqrt_n;
    x2[bias] = inv_sqrt_n * inv_sqrt_n;
    if (input != nullptr) input[bias] = n_inputs;
    point.n = n + 1;
    point.n_filled = 0;
    if (rows.filled.indptr == nullptr) return fits;
    const Filled& filled = rows.filled;
    for (int64_t k = filled.indptr[i]; k < filled.indptr[i + 1]; ++k) {
        const int at = input == nullptr ? filled.indices[k] : point.n + point.n_filled++;
        if (input != nullptr) input[at] = filled.indices[k];
        const double exact = filled.mean[k] / (scale == nullptr ? 1.0 : scale[filled.indices[k]]);
        fits &= __builtin_fabs(exact) <= largest;
        x[at] = T(exact) * inv_sqrt_n;
        point.v[at] = T(filled.variance[k]) * inv_sqrt_n * inv_sqrt_n;
        x2[at] = x[at] * x[at] + point.v[at];
    }
    return fits;
}

template <typename T>
using ReadPoint = bool (*)(const Rows&, const Scaling&, int64_t, T, Point<T>&);

// The way to read these points, chosen once for all of them.
template <typename T>
static ReadPoint<T> reader_of(const Rows& rows, const Scaling& scaling) {
    if (is_listed(rows)) return read_listed<T>;
    const Matrix& X = rows.X;
    static constexpr ReadPoint<T> readers[] = {
        read_point<T, double, false, false>, read_point<T, double, false, true>,
        read_point<T, double, true, false>,  read_point<T, double, true, true>,
        read_point<T, float, false, false>,  read_point<T, float, false, true>,
        read_point<T, float, true, false>,   read_point<T, float, true, true>};
    const bool dense = X.column_stride == 1 || X.n_columns == 1, scaled = scaling.mean != nullptr;
    return readers[(X.single ? 4 : 0) + (dense ? 2 : 0) + (scaled ? 1 : 0)];
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

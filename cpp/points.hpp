// Points read where they lie, and standardised on the way: (x - mean)/scale in double precision.
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
    t += order.first;
    if (order.narrow != nullptr) return order.narrow[t];
    return order.wide != nullptr ? order.wide[t] : t;
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

// The targets of point i, standardised; (n_columns,).
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

// The input layer (17) of point i: x/sqrt(n) and x^2/n with n = n_columns + 1, bias last. False
// where an entry is too large. `dense`: the entries of a row lie side by side.
template <typename T, typename Source, bool dense, bool scaled>
static bool read_point(const Matrix& X, const Scaling& scaling, int64_t i, T inv_sqrt_n,
                       T* __restrict x, T* __restrict x2) {
    constexpr int lanes = Simd<double>::lanes;
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

template <typename T>
using ReadPoint = bool (*)(const Matrix&, const Scaling&, int64_t, T, T*, T*);

// The way to read these points, chosen once for all of them.
template <typename T>
static ReadPoint<T> reader_of(const Matrix& X, const Scaling& scaling) {
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

// The vector type of one instruction set, and exp over it.
//
// Everything here, templates included, lives in a namespace named for the instruction set
// (PROBPROP_LEVEL) and has internal linkage: otherwise the linker would merge, say, the
// AVX-512 copy of a template into the path of a machine that lacks AVX-512.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "coefficients.hpp"

#ifndef PROBPROP_LEVEL
#error "PROBPROP_LEVEL must name the instruction set"
#endif

#if defined(__AVX512F__)
#define PROBPROP_VECTOR_BYTES 64
#elif defined(__AVX__)
#define PROBPROP_VECTOR_BYTES 32
#else
#define PROBPROP_VECTOR_BYTES 16
#endif

#define PROBPROP_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define PROBPROP_UNROLL _Pragma("unroll")
#else
#define PROBPROP_UNROLL _Pragma("GCC unroll 16")
#endif
#define PROBPROP_LIKELY(condition) __builtin_expect(!!(condition), 1)

namespace probprop {
namespace PROBPROP_LEVEL {

typedef double VecF64 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef float VecF32 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef int64_t VecI64 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef int32_t VecI32 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef uint64_t VecU64 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef uint32_t VecU32 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef int16_t VecI16 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));
typedef uint16_t VecU16 __attribute__((vector_size(PROBPROP_VECTOR_BYTES), may_alias));

template <typename T>
struct Simd;

template <>
struct Simd<double> {
    using Vec = VecF64;
    using Int = VecI64;
    using Unsigned = VecU64;
    static constexpr int lanes = PROBPROP_VECTOR_BYTES / 8;
    static constexpr int mantissa_bits = 52;
    static constexpr double round_to_int = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double ln2_high = 0x1.62e42fefa0000p-1;    // 21 trailing zero bits
    static constexpr double ln2_low = 0x1.cf79abc9e3b3ap-40;
    static constexpr double exp_lowest = -708.0;  // below: the result would be subnormal
    static constexpr double v_floor = 1e-100;     // an update to a smaller one is undone
    static constexpr int top_good = 0x2b2c;       // 16 bits that only numbers above v_floor have
    static constexpr int top_inf = 0x7ff0;        // the same bits of infinity
    static constexpr double v_smallest = 1e-300;  // keeps m/sqrt(v) finite
    static constexpr const double* exp_poly = exp_f64;
    static constexpr int exp_degree = sizeof(exp_f64) / sizeof(double) - 1;
    static constexpr const double* tail_p = tail_p_f64;
    static constexpr int tail_p_degree = sizeof(tail_p_f64) / sizeof(double) - 1;
    static constexpr const double* tail_q = tail_q_f64;
    static constexpr int tail_q_degree = sizeof(tail_q_f64) / sizeof(double) - 1;
    static constexpr double tail_unit = 0x1p-70;  // keeps Q(x) (1 + x^2) below 1 up to exp_lowest
};

template <>
struct Simd<float> {
    using Vec = VecF32;
    using Int = VecI32;
    using Unsigned = VecU32;
    static constexpr int lanes = PROBPROP_VECTOR_BYTES / 4;
    static constexpr int mantissa_bits = 23;
    static constexpr float round_to_int = 12582912.0f;  // 1.5 * 2^23
    static constexpr float ln2_high = 0x1.62e000p-1f;
    static constexpr float ln2_low = 0x1.0bfbe8p-15f;
    static constexpr float exp_lowest = -87.0f;
    static constexpr float v_floor = 0.0f;  // 1e-100 rounds to zero here
    static constexpr int top_good = 0x0001, top_inf = 0x7f80;
    static constexpr float v_smallest = 1e-36f;
    static constexpr const float* exp_poly = exp_f32;
    static constexpr int exp_degree = sizeof(exp_f32) / sizeof(float) - 1;
    static constexpr const float* tail_p = tail_p_f32;
    static constexpr int tail_p_degree = sizeof(tail_p_f32) / sizeof(float) - 1;
    static constexpr const float* tail_q = tail_q_f32;
    static constexpr int tail_q_degree = sizeof(tail_q_f32) / sizeof(float) - 1;
    static constexpr float tail_unit = 0x1p-35f;
};

template <typename T>
using Vec = typename Simd<T>::Vec;
template <typename T>
using Int = typename Simd<T>::Int;

template <typename T>
PROBPROP_INLINE Vec<T> load(const T* p) {
    return *reinterpret_cast<const Vec<T>*>(p);  // p is aligned to the vector
}
template <typename T>
PROBPROP_INLINE void store(T* p, Vec<T> x) {
    *reinterpret_cast<Vec<T>*>(p) = x;
}
template <typename T>
PROBPROP_INLINE Vec<T> splat(T x) {
    return x - Vec<T>{};
}

// Ask for the cache lines of n numbers: one per line's length, and the last, which a row that does
// not start with a line ends in.
template <typename T>
PROBPROP_INLINE void prefetch(const T* first, int n) {
    const char* byte = reinterpret_cast<const char*>(first);
    const char* last = reinterpret_cast<const char*>(first + n) - 1;
    for (; byte < last; byte += 64) __builtin_prefetch(byte);
    __builtin_prefetch(last);
}

template <typename T>
PROBPROP_INLINE Vec<T> abs(Vec<T> a) {
    constexpr auto sign = static_cast<decltype(Int<T>{}[0] + 0)>(1)
                          << (sizeof(T) * 8 - 2);  // everything but the sign bit: 2*sign - 1
    return (Vec<T>)((Int<T>)a & (Int<T>{} + (sign - 1 + sign)));
}

// The square root; and the smaller and the larger, b where either is NaN. Compilers do not make one
// instruction of a < b ? a : b.
#if defined(__AVX512F__)
#define PROBPROP_X86(operation) _mm512_##operation
typedef __m512d X86F64;
typedef __m512 X86F32;
#elif defined(__AVX__)
#define PROBPROP_X86(operation) _mm256_##operation
typedef __m256d X86F64;
typedef __m256 X86F32;
#elif defined(__SSE2__)
#define PROBPROP_X86(operation) _mm_##operation
typedef __m128d X86F64;
typedef __m128 X86F32;
#endif
#if defined(PROBPROP_X86)
PROBPROP_INLINE VecF64 sqrt(VecF64 x) { return (VecF64)PROBPROP_X86(sqrt_pd)((X86F64)x); }
PROBPROP_INLINE VecF32 sqrt(VecF32 x) { return (VecF32)PROBPROP_X86(sqrt_ps)((X86F32)x); }
PROBPROP_INLINE VecF64 min(VecF64 a, VecF64 b) {
    return (VecF64)PROBPROP_X86(min_pd)((X86F64)a, (X86F64)b);
}
PROBPROP_INLINE VecF32 min(VecF32 a, VecF32 b) {
    return (VecF32)PROBPROP_X86(min_ps)((X86F32)a, (X86F32)b);
}
PROBPROP_INLINE VecF64 max(VecF64 a, VecF64 b) {
    return (VecF64)PROBPROP_X86(max_pd)((X86F64)a, (X86F64)b);
}
PROBPROP_INLINE VecF32 max(VecF32 a, VecF32 b) {
    return (VecF32)PROBPROP_X86(max_ps)((X86F32)a, (X86F32)b);
}
#else
#if defined(__aarch64__)
PROBPROP_INLINE VecF64 sqrt(VecF64 x) { return (VecF64)vsqrtq_f64((float64x2_t)x); }
PROBPROP_INLINE VecF32 sqrt(VecF32 x) { return (VecF32)vsqrtq_f32((float32x4_t)x); }
#else
PROBPROP_INLINE VecF64 sqrt(VecF64 x) {
    for (int i = 0; i < Simd<double>::lanes; ++i) x[i] = __builtin_sqrt(x[i]);
    return x;
}
PROBPROP_INLINE VecF32 sqrt(VecF32 x) {
    for (int i = 0; i < Simd<float>::lanes; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
}
#endif
template <typename V>
PROBPROP_INLINE V min(V a, V b) {
    return a < b ? a : b;
}
template <typename V>
PROBPROP_INLINE V max(V a, V b) {
    return a > b ? a : b;
}
#endif

// The list 0, 1, ..., n - 1 as a template argument pack.
template <size_t... i>
struct LaneList {};
template <size_t n, size_t... i>
struct Lanes : Lanes<n - 1, n - 1, i...> {};
template <size_t... i>
struct Lanes<0, i...> {
    using List = LaneList<i...>;
};

// Flush subnormal numbers to zero while alive: they are many times slower and carry nothing.
struct [[maybe_unused]] FlushDenormals {
#if defined(__x86_64__)
    const unsigned saved = _mm_getcsr();
    FlushDenormals() { _mm_setcsr(saved | 0x8040u); }  // FTZ, DAZ
    ~FlushDenormals() { _mm_setcsr(saved); }
#elif defined(__aarch64__)
    uint64_t saved;
    FlushDenormals() {
        __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
        __asm__ volatile("msr fpcr, %0" : : "r"(saved | (1ull << 24)));
    }
    ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" : : "r"(saved)); }
#endif
};

// Whether any lane of x is above the same lane of `limit`.
PROBPROP_INLINE bool any_above(VecI16 x, VecI16 limit) {
#if defined(__AVX512BW__)
    return _mm512_cmpgt_epi16_mask((__m512i)x, (__m512i)limit) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_epi8((__m256i)(x > limit)) != 0;
#elif defined(__SSE2__) && !defined(__AVX__)
    return _mm_movemask_epi8((__m128i)(x > limit)) != 0;
#else
    const VecI64 above = (VecI64)(x > limit);
    int64_t any = 0;
    for (int i = 0; i < Simd<double>::lanes; ++i) any |= above[i];
    return any != 0;
#endif
}

// Whether any of n_vec vectors may hold a number that is not above v_floor or not finite: never
// no where one does, and yes also for numbers within 1/16 above the floor. It takes the two
// operations per vector on integers, since compares wait for the units that multiply. The top 16
// bits are sign and exponent; less top_good they are in order, as numbers without a sign, and with
// 0x8000 more as numbers with one. The bits below them have a limit nothing is above.
template <typename T, int n_vec>
PROBPROP_INLINE bool any_suspicious(const Vec<T>* v) {
    using S = Simd<T>;
    using Bits = typename S::Unsigned;
    constexpr int top = 8 * sizeof(T) - 16;
    constexpr auto one = static_cast<decltype(Bits{}[0] + 0)>(1);
    constexpr auto zero = one * (S::top_good + 0x8000) << top;
    constexpr auto below = ((one << top) - 1) / 0xffff * 0x7fff;
    constexpr auto limit = (one * (S::top_inf - 1 - S::top_good + 0x8000) << top) | below;
    VecI16 worst = (VecI16)((VecU16)v[0] - (VecU16)(Bits{} + zero));
    PROBPROP_UNROLL
    for (int b = 1; b < n_vec; ++b) {
        const VecI16 next = (VecI16)((VecU16)v[b] - (VecU16)(Bits{} + zero));
        worst = worst > next ? worst : next;
    }
    return any_above(worst, (VecI16)(Bits{} + limit));
}

// Sum over the lanes: fold the vector onto itself until every lane holds the sum.
template <typename T, int by, size_t... lane>
PROBPROP_INLINE Vec<T> rotated(Vec<T> x, LaneList<lane...>) {
    return __builtin_shufflevector(x, x, ((int(lane) + by) % Simd<T>::lanes)...);
}
template <typename T, int by = Simd<T>::lanes / 2>
PROBPROP_INLINE T sum_lanes(Vec<T> x) {
    if constexpr (by == 0)
        return x[0];
    else
        return sum_lanes<T, by / 2>(x + rotated<T, by>(x, typename Lanes<Simd<T>::lanes>::List{}));
}

// Horner's rule, unrolled; coefficients with the lowest power first.
template <typename T, int degree>
PROBPROP_INLINE Vec<T> horner(const T* coefficients, Vec<T> x) {
    Vec<T> sum = splat<T>(coefficients[degree]);
    PROBPROP_UNROLL
    for (int k = degree - 1; k >= 0; --k) sum = sum * x + coefficients[k];
    return sum;
}

// p 2^k, where the low bits of `shifted`, k + round_to_int, hold k: moved to the exponent they
// multiply p. Unsigned, for below exp_lowest, where the result is not used, the sum may overflow.
template <typename T>
PROBPROP_INLINE Vec<T> times_power_of_2(Vec<T> p, Vec<T> shifted) {
    using Bits = typename Simd<T>::Unsigned;
    return (Vec<T>)((Bits)p + ((Bits)shifted << Simd<T>::mantissa_bits));
}

// exp(x) for x <= 0; zero where the result would be subnormal.
template <typename T>
PROBPROP_INLINE Vec<T> exp_nonpositive(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> shifted = x * T(1.4426950408889634) + S::round_to_int;
    const Vec<T> k = shifted - S::round_to_int;
    const Vec<T> r = (x - k * S::ln2_high) - k * S::ln2_low;
    const Vec<T> p = horner<T, S::exp_degree>(S::exp_poly, r);
    return x < S::exp_lowest ? Vec<T>{} : times_power_of_2<T>(p, shifted);
}

// The coefficients of factor p(step x), given the coefficients of p.
template <typename T, int degree>
struct Rescaled {
    T coefficients[degree + 1] = {};
    constexpr Rescaled(const T* p, T factor, T step) {
        for (int k = 0; k <= degree; ++k, factor *= step) coefficients[k] = p[k] * factor;
    }
};
template <typename T>
static constexpr Rescaled<T, Simd<T>::exp_degree> density_poly(Simd<T>::exp_poly,
                                                               T(0.3989422804014327), T(-0.5));

// The density of the normal distribution where x^2 is x2: as exp_nonpositive, with the factors
// 1/sqrt(2 pi) and -1/2 in the coefficients.
template <typename T>
PROBPROP_INLINE Vec<T> normal_density(Vec<T> x2) {
    using S = Simd<T>;
    const Vec<T> shifted = x2 * T(-0.7213475204444817) + S::round_to_int;
    const Vec<T> k = shifted - S::round_to_int;
    const Vec<T> r = (x2 + k * (T(2) * S::ln2_high)) + k * (T(2) * S::ln2_low);
    const Vec<T> p = horner<T, S::exp_degree>(density_poly<T>.coefficients, r);
    return x2 > T(-2) * S::exp_lowest ? Vec<T>{} : times_power_of_2<T>(p, shifted);
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

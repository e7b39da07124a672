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
    static constexpr double v_floor = 1e-100;     // an update to below is undone
    static constexpr double v_smallest = 1e-300;  // keeps m/sqrt(v) finite
    static constexpr const double* exp_poly = exp_f64;
    static constexpr int exp_degree = sizeof(exp_f64) / sizeof(double) - 1;
    static constexpr const double* tail_p = tail_p_f64;
    static constexpr int tail_p_degree = sizeof(tail_p_f64) / sizeof(double) - 1;
    static constexpr const double* tail_q = tail_q_f64;
    static constexpr int tail_q_degree = sizeof(tail_q_f64) / sizeof(double) - 1;
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
    static constexpr float v_smallest = 1e-36f;
    static constexpr const float* exp_poly = exp_f32;
    static constexpr int exp_degree = sizeof(exp_f32) / sizeof(float) - 1;
    static constexpr const float* tail_p = tail_p_f32;
    static constexpr int tail_p_degree = sizeof(tail_p_f32) / sizeof(float) - 1;
    static constexpr const float* tail_q = tail_q_f32;
    static constexpr int tail_q_degree = sizeof(tail_q_f32) / sizeof(float) - 1;
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
PROBPROP_INLINE Vec<T> min(Vec<T> a, Vec<T> b) {
    return a < b ? a : b;
}
template <typename T>
PROBPROP_INLINE Vec<T> max(Vec<T> a, Vec<T> b) {
    return a > b ? a : b;
}
template <typename T>
PROBPROP_INLINE Vec<T> abs(Vec<T> a) {
    constexpr auto sign = static_cast<decltype(Int<T>{}[0] + 0)>(1)
                          << (sizeof(T) * 8 - 2);  // everything but the sign bit: 2*sign - 1
    return (Vec<T>)((Int<T>)a & (Int<T>{} + (sign - 1 + sign)));
}

PROBPROP_INLINE VecF64 sqrt(VecF64 x) {
#if defined(__AVX512F__)
    return (VecF64)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX__)
    return (VecF64)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
    return (VecF64)_mm_sqrt_pd((__m128d)x);
#elif defined(__aarch64__)
    return (VecF64)vsqrtq_f64((float64x2_t)x);
#else
    for (int i = 0; i < Simd<double>::lanes; ++i) x[i] = __builtin_sqrt(x[i]);
    return x;
#endif
}
PROBPROP_INLINE VecF32 sqrt(VecF32 x) {
#if defined(__AVX512F__)
    return (VecF32)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (VecF32)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (VecF32)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (VecF32)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < Simd<float>::lanes; ++i) x[i] = __builtin_sqrtf(x[i]);
    return x;
#endif
}

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
struct FlushDenormals {
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

template <typename T>
struct LaneMask {
    using Type = unsigned;
};

// One bit per lane, of those in `among`: set where low < x < infinity (so clear for NaN).
#if defined(__AVX512F__)
PROBPROP_INLINE __mmask8 lanes_within(VecF64 x, double low, __mmask8 among) {
    among = _mm512_mask_cmp_pd_mask(among, (__m512d)x, _mm512_set1_pd(low), _CMP_GT_OQ);
    return _mm512_mask_cmp_pd_mask(among, (__m512d)x, _mm512_set1_pd(__builtin_inf()), _CMP_LT_OQ);
}
PROBPROP_INLINE __mmask16 lanes_within(VecF32 x, float low, __mmask16 among) {
    among = _mm512_mask_cmp_ps_mask(among, (__m512)x, _mm512_set1_ps(low), _CMP_GT_OQ);
    return _mm512_mask_cmp_ps_mask(among, (__m512)x, _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ);
}
template <>
struct LaneMask<double> {
    using Type = __mmask8;
};
template <>
struct LaneMask<float> {
    using Type = __mmask16;
};
#else
PROBPROP_INLINE unsigned lanes_within(VecF64 x, double low, unsigned among) {
    const VecI64 ok = (x > low) & (x < __builtin_inf());
#if defined(__AVX__)
    return among & static_cast<unsigned>(_mm256_movemask_pd((__m256d)ok));
#elif defined(__SSE2__)
    return among & static_cast<unsigned>(_mm_movemask_pd((__m128d)ok));
#else
    return among & static_cast<unsigned>((ok[0] & 1) | (ok[1] & 2));
#endif
}
PROBPROP_INLINE unsigned lanes_within(VecF32 x, float low, unsigned among) {
    const VecI32 ok = (x > low) & (x < __builtin_inff());
#if defined(__AVX__)
    return among & static_cast<unsigned>(_mm256_movemask_ps((__m256)ok));
#elif defined(__SSE2__)
    return among & static_cast<unsigned>(_mm_movemask_ps((__m128)ok));
#else
    return among & static_cast<unsigned>((ok[0] & 1) | (ok[1] & 2) | (ok[2] & 4) | (ok[3] & 8));
#endif
}
#endif
template <typename T>
using Mask = typename LaneMask<T>::Type;
template <typename T>
constexpr Mask<T> all_lanes = static_cast<Mask<T>>((1u << Simd<T>::lanes) - 1u);

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

// exp(x) for x <= 0; zero where the result would be subnormal.
template <typename T>
PROBPROP_INLINE Vec<T> exp_nonpositive(Vec<T> x) {
    using S = Simd<T>;
    const Vec<T> shifted = x * T(1.4426950408889634) + S::round_to_int;
    const Vec<T> k = shifted - S::round_to_int;
    const Vec<T> r = (x - k * S::ln2_high) - k * S::ln2_low;
    const Vec<T> p = horner<T, S::exp_degree>(S::exp_poly, r);
    // The low bits of `shifted` hold k: moved to the exponent they multiply p by 2^k. Unsigned,
    // for below exp_lowest, where the result is not used, the sum may overflow.
    using Bits = typename S::Unsigned;
    const Vec<T> y = (Vec<T>)((Bits)p + ((Bits)shifted << S::mantissa_bits));
    return x < S::exp_lowest ? Vec<T>{} : y;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

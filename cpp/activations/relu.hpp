// ReLU moments and their four derivatives: [PBP15] Eq. (15)(16), S(11) to S(14).
// The readable twin is src/probprop/reference/relu.py.
#pragma once

#include "../simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

template <typename T>
struct ReluMoments {
    Vec<T> m_z, v_z;      // Eq. (15), (16)
    Vec<T> dm_dm, dm_dv;  // dm_z/dm_a, dm_z/dv_a
    Vec<T> dv_dm, dv_dv;  // dv_z/dm_a, dv_z/dv_a
};

// P and Q in a unit in which phi/(Q (1 + x^2)) does not underflow before phi does.
template <typename T>
static constexpr Rescaled<T, Simd<T>::tail_p_degree> tail_p(Simd<T>::tail_p, Simd<T>::tail_unit,
                                                            T(1));
template <typename T>
static constexpr Rescaled<T, Simd<T>::tail_q_degree> tail_q(Simd<T>::tail_q, Simd<T>::tail_unit,
                                                            T(1));

// With I_n(x) = int_0^inf u^n exp(-u^2/2 - x u) du, x = |t|: I_0 = R is the Mills ratio,
// I_1 = A = 1 - x R and I_2 = B = (x^2 + 1) R - x. Those differences cancel in the tail; B is
// therefore the function that is approximated (P/Q, positive coefficients), and R and A
// follow from it without cancellation: R = (x + B)/(1 + x^2), A = (1 - x B)/(1 + x^2).
template <typename T>
PROBPROP_INLINE ReluMoments<T> relu_moments(Vec<T> m_a, Vec<T> v_a) {
    using S = Simd<T>;
    const Vec<T> v = max(v_a, splat<T>(S::v_smallest));
    const Vec<T> s = sqrt(v);
    const Vec<T> inv_s = T(1) / s;
    const Vec<T> t = m_a * inv_s;
    // The density is zero in double beyond 38.6, so beyond 40 the tail functions don't matter.
    const Vec<T> x = min(abs<T>(t), splat<T>(T(40)));
    const Vec<T> x2 = x * x;
    const Vec<T> phi = normal_density<T>(x2);

    const Vec<T> p = horner<T, S::tail_p_degree>(tail_p<T>.coefficients, x);
    const Vec<T> q = horner<T, S::tail_q_degree>(tail_q<T>.coefficients, x);
    const Vec<T> one_x2 = x2 + T(1);
    const Vec<T> scale = phi * (T(1) / (q * one_x2));  // one division serves R, A and B = p/q
    const Vec<T> tail = scale * (x * q + p);           // phi R = Phi(-x)
    const Vec<T> phi_A = scale * (q - x * p);
    const Vec<T> phi_B = scale * (p * one_x2);
    const Vec<T> body = T(1) - tail;
    const auto positive = t > T(0);
    const Vec<T> Phi = positive ? body : tail;
    const Vec<T> Phi_minus = positive ? tail : body;
    const Vec<T> density = phi * inv_s;  // of the activation at zero

    ReluMoments<T> out;
    out.m_z = s * phi_A + (positive ? m_a : Vec<T>{});
    out.v_z =
        v * ((positive ? T(1) - phi_B : phi_B) - ((positive ? x + x : Vec<T>{}) + phi_A) * phi_A);
    out.dm_dm = Phi;
    out.dm_dv = T(0.5) * density;
    out.dv_dm = (out.m_z + out.m_z) * Phi_minus;
    out.dv_dv = Phi - out.m_z * density;
    return out;
}

namespace {

struct Relu {
    template <typename T>
    PROBPROP_INLINE ReluMoments<T> moments(Vec<T> m_a, Vec<T> v_a) {
        return relu_moments<T>(m_a, v_a);
    }
};

}  // namespace
}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// ReLU moments and their four derivatives: [PBP15] Eq. (15)(16), S(11) to S(14).
// The readable twin is src/probprop/reference/activations/relu.py.
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
    const Vec<T> phi = T(0.3989422804014327) * exp_nonpositive<T>(T(-0.5) * x * x);

    const Vec<T> p = horner<T, S::tail_p_degree>(S::tail_p, x);
    const Vec<T> q = horner<T, S::tail_q_degree>(S::tail_q, x);
    const Vec<T> one_x2 = x * x + T(1);
    const Vec<T> inverse = T(1) / (q * one_x2);  // one division serves B, R and A
    const Vec<T> B = p * one_x2 * inverse;
    const Vec<T> inv_one_x2 = q * inverse;
    const Vec<T> R = (x + B) * inv_one_x2;
    const Vec<T> A = (T(1) - x * B) * inv_one_x2;

    const Vec<T> tail = phi * R;  // Phi(-x)
    const Vec<T> body = T(1) - tail;
    const Vec<T> phi_A = phi * A;
    const Vec<T> phi_B = phi * B;
    const auto positive = t > T(0);
    const Vec<T> Phi = positive ? body : tail;
    const Vec<T> Phi_minus = positive ? tail : body;

    ReluMoments<T> out;
    out.m_z = s * phi_A + max(m_a, Vec<T>{});
    out.v_z = v * (positive ? T(1) - phi_B - (T(2) * x + phi_A) * phi_A : phi_B - phi_A * phi_A);
    out.dm_dm = Phi;
    out.dm_dv = T(0.5) * phi * inv_s;
    out.dv_dm = T(2) * out.m_z * Phi_minus;
    out.dv_dv = Phi - out.m_z * phi * inv_s;
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

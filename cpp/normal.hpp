// The normal distribution function and its hazard, accurate in both tails.
#pragma once

#include "simd.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

// The normal distribution in parts that neither underflow nor cancel:
// Phi(z) = mantissa exp(-min(z, 0)^2/2), ratio = phi(z)/Phi(z), gap = ratio + z.
struct NormalParts {
    VecF64 mantissa, ratio, gap;
};

constexpr double density_at_0 = 0.3989422804014327;  // of the normal distribution

// With x = |z| and B = P/Q of activations/relu.hpp, the Mills ratio Phi(-x)/phi(x) is U/W with
// U = x Q + P and W = (1 + x^2) Q, and in the lower tail gap = (Q - x P)/U.
PROBPROP_INLINE NormalParts normal_parts(VecF64 z) {
    using S = Simd<double>;
    const VecF64 x = abs<double>(z);
    const VecF64 p = horner<double, S::tail_p_degree>(S::tail_p, x);
    const VecF64 q = horner<double, S::tail_q_degree>(S::tail_q, x);
    const VecF64 u = x * q + p, w = (x * x + 1.0) * q;
    const VecF64 phi = density_at_0 * exp_nonpositive<double>(-0.5 * x * x);
    const auto lower = z < 0.0;
    const VecF64 density = lower ? splat(density_at_0) : phi;
    const VecF64 mantissa_w = lower ? density_at_0 * u : w - phi * u;
    const VecF64 inverse = 1.0 / (mantissa_w * w);  // one division serves all three
    NormalParts out;
    out.mantissa = mantissa_w * mantissa_w * inverse;
    out.ratio = density * w * w * inverse;
    out.gap = lower ? density_at_0 * (q - x * p) * w * inverse : out.ratio + z;
    return out;
}

PROBPROP_INLINE VecF64 lower_exponent(VecF64 z) {  // -min(z, 0)^2/2
    const VecF64 below = min(z, VecF64{});
    return -0.5 * below * below;
}

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

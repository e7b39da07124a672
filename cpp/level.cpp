// Compiled once per instruction set, with PROBPROP_LEVEL naming it and the flags to match.
#include "gradient.hpp"

namespace probprop {
namespace PROBPROP_LEVEL {

template <typename T>
static void relu_moments_many(const T* m_a, const T* v_a, int64_t n, T* out) {
    constexpr int lanes = Simd<T>::lanes;
    for (int64_t i = 0; i < n; i += lanes) {
        Vec<T> m = {}, v = splat<T>(1);
        for (int k = 0; k < lanes && i + k < n; ++k) {
            m[k] = m_a[i + k];
            v[k] = v_a[i + k];
        }
        const ReluMoments<T> z = relu_moments<T>(m, v);
        const Vec<T> all[6] = {z.m_z, z.v_z, z.dm_dm, z.dm_dv, z.dv_dm, z.dv_dv};
        for (int f = 0; f < 6; ++f)
            for (int k = 0; k < lanes && i + k < n; ++k) out[f * n + i + k] = all[f][k];
    }
}

#define PROBPROP_STRING_(x) #x
#define PROBPROP_STRING(x) PROBPROP_STRING_(x)
extern const Level level;
const Level level = {PROBPROP_STRING(PROBPROP_LEVEL),
                     adf_pass<double>,
                     adf_pass<float>,
                     predict<double>,
                     predict<float>,
                     gradient<double>,
                     gradient<float>,
                     relu_moments_many<double>,
                     relu_moments_many<float>};

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

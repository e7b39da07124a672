// Compiled once per instruction set, with PROBPROP_LEVEL naming it and the flags to match.
#include "adf.hpp"
#include "classes.hpp"
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

static Status log_Z_of_point(const EvidenceArgs& a, double& log_Z) {
    Arena arena;
    arena.take<double>(multinomial_scratch(a.n_outputs));
    if (!arena.reserve()) return Status::no_memory;
    switch (a.likelihood) {
        case Likelihood::gaussian:
            log_Z = log_Z_gaussian(a.m, a.v, a.y, a.noise_variance, a.n_outputs, a.d_m, a.d_v);
            break;
        case Likelihood::probit:
            log_Z = log_Z_probit(a.m, a.v, a.y, a.n_outputs, a.d_m, a.d_v);
            break;
        case Likelihood::multinomial:
            log_Z = log_Z_multinomial(a.m, a.v, static_cast<int>(a.y[0]), a.n_outputs, a.d_m, a.d_v,
                                      arena.take<double>(multinomial_scratch(a.n_outputs)));
    }
    return Status::ok;
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
                     class_log_probabilities,
                     log_Z_of_point,
                     relu_moments_many<double>,
                     relu_moments_many<float>};

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

// Compiled once per instruction set, with PROBPROP_LEVEL naming it and the flags to match.
#include "activations/relu.hpp"
#include "adf.hpp"
#include "classes.hpp"
#include "gradient.hpp"
#include "mixture.hpp"
#include "sampled.hpp"

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

template <typename L>
static Status log_Z_of_point(const EvidenceArgs& a, double& log_Z) {
    const size_t n_scratch = L::n_scratch(a.outputs.n);
    Arena arena;
    arena.take<double>(n_scratch);
    if (!arena.reserve()) return Status::no_memory;
    log_Z = L::evidence(a.outputs, a.y, a.alpha, a.beta, arena.take<double>(n_scratch));
    return Status::ok;
}

template <typename... L>
static Status log_Z_of(LikelihoodList<L...>, const EvidenceArgs& args, double& log_Z) {
    using Function = Status (*)(const EvidenceArgs&, double&);
    constexpr Function functions[] = {log_Z_of_point<L>...};
    return functions[args.likelihood](args, log_Z);
}

static Status log_Z(const EvidenceArgs& args, double& log_Z) {
    return log_Z_of(Likelihoods{}, args, log_Z);
}

static void scale_mixtures(const ScaleArgs& a) {
    for (int64_t i = 0; i < a.n; ++i) {
        const ScaleMixture z = scale_mixture(a.d[i], a.v[i], a.mu[i], a.var[i]);
        const double all[5] = {z.log_Z, z.d_mu, z.d_var, z.d_m, z.d_v};
        for (int f = 0; f < 5; ++f) a.out[f * a.n + i] = all[f];
    }
}

template <typename T, typename Activation>
static constexpr Kernels<T> kernels = {adf_pass<T, Activation>, predict<T, Activation>,
                                       gradient<T, Activation>, relu_moments_many<T>};

#define PROBPROP_STRING_(x) #x
#define PROBPROP_STRING(x) PROBPROP_STRING_(x)
extern const Level level;
const Level level = {PROBPROP_STRING(PROBPROP_LEVEL),
                     kernels<double, Relu>,
#if defined(PROBPROP_DOUBLE_ONLY)  // a page has no use for the rest
                     {},
#else
                     kernels<float, Relu>,
#endif
                     Likelihoods::info,
                     Likelihoods::size,
                     log_Z,
                     class_log_probabilities,
                     sampled,
                     scale_mixtures,
                     mixture,
                     power_moments};

}  // namespace PROBPROP_LEVEL
}  // namespace probprop

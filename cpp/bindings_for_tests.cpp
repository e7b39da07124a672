// The parts of the kernels that Python calls in its tests only, each against its reference.
#include <tuple>

#include "bindings.hpp"
#include "gamma.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

template <typename T>
using Moments = nb::ndarray<nb::numpy, T, nb::shape<6, -1>, nb::c_contig>;

template <typename T>
Moments<T> relu_moments(In1<T> m_a, In1<T> v_a) {
    const size_t n = m_a.shape(0);
    check(v_a.shape(0) == n, "m_a and v_a differ in length");
    T* data = new T[6 * n + 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    kernels<T>().relu_moments(m_a.data(), v_a.data(), static_cast<int64_t>(n), data);
    return Moments<T>(data, {6, n}, owner);
}

using EvidenceReturn = std::tuple<double, Out1<double>, Out1<double>>;

EvidenceReturn log_Z(const std::string& likelihood, In1<double> m, In1<double> v, In1<double> y,
                     In1<double> alpha, In1<double> beta, std::optional<In1<double>> tail) {
    const int index = likelihood_index(likelihood), n = static_cast<int>(m.shape(0));
    const LikelihoodInfo& info = active->likelihoods[index];
    const size_t n_targets = static_cast<size_t>(info.n_targets(n));
    const size_t n_noise = static_cast<size_t>(info.n_noise(n));
    check(v.shape(0) == m.shape(0), "m and v differ in length");
    check(y.shape(0) == n_targets && alpha.shape(0) == n_noise && beta.shape(0) == n_noise,
          "the arrays differ in length");
    check_targets(info, {y.data(), false, 1, static_cast<int>(n_targets), 0, 1}, n);
    Out1<double> d_m = new_array<double>(m.shape(0)), d_v = new_array<double>(m.shape(0));
    const Out1<double> own = tails_of(tail, n), d_level = tails_of({}, n), d_tail = tails_of({}, n);
    const EvidenceArgs args = {
        index,
        {n, m.data(), v.data(), d_m.data(), d_v.data(), own.data(), d_level.data(), d_tail.data()},
        y.data(),
        alpha.data(),
        beta.data()};
    double value;
    raise_unless_ok(active->log_Z(args, value));
    return {value, d_m, d_v};
}

using Mixtures = nb::ndarray<nb::numpy, double, nb::shape<5, -1>, nb::c_contig>;

Mixtures scale_mixture(In1<double> d, In1<double> v, In1<double> mu, In1<double> var) {
    const size_t n = d.shape(0);
    check(v.shape(0) == n && mu.shape(0) == n && var.shape(0) == n, "the arrays differ in length");
    double* data = new double[5 * n + 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    {
        nb::gil_scoped_release release;
        active->scale_mixtures(
            {d.data(), v.data(), mu.data(), var.data(), static_cast<int64_t>(n), data});
    }
    return Mixtures(data, {5, n}, owner);
}

std::tuple<double, double> as_tuple(GammaShapeRate g) { return {g.alpha, g.beta}; }

template <typename T>
void define_for(nb::module_& m) {
    m.def("relu_moments", &relu_moments<T>, "m_a"_a, "v_a"_a,
          "Rows m_z, v_z, dm_z/dm, dm_z/dv, dv_z/dm, dv_z/dv.");
}

}  // namespace

void define_for_tests(nb::module_& m) {
    define_for<double>(m);
    define_for<float>(m);
    m.def("log_Z", &log_Z, "likelihood"_a, "m"_a, "v"_a, "y"_a, "alpha"_a, "beta"_a,
          "tail"_a = nb::none(),
          "log Z of one point, and its derivatives by m and by v, (K,) each; alpha and beta are "
          "shapes and rates of the noise precisions, tail the variances of log noise variances.");
    m.def(
        "scale_mixture", &scale_mixture, "d"_a, "v"_a, "mu"_a, "var"_a,
        "Rows log Z and its derivatives by mu, var, the mean and v, of residuals d whose noise has "
        "a log-normal variance.");
    m.def(
        "gamma_increments",
        [](double alpha, double beta, double d2, double v) {
            return as_tuple(gamma_increments(alpha, beta, d2, v));
        },
        "alpha"_a, "beta"_a, "d2"_a, "v"_a, "What Eq. (9)(10) add to alpha and beta.");
    m.def(
        "gamma_moments_by_quadrature",
        [](double alpha, double beta, double d2, double v) {
            return as_tuple(gamma_moments_by_quadrature(alpha, beta, d2, v));
        },
        "alpha"_a, "beta"_a, "d2"_a, "v"_a, "The exact moments, as a Gamma.");
}

}  // namespace probprop

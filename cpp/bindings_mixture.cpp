// Mixtures of predictive distributions: arrays (members, rows, targets) where they lie.
#include <optional>
#include <string>

#include "bindings.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

using In3 = nb::ndarray<const double, nb::ndim<3>, nb::device::cpu>;  // with any strides
using At = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Out3 = nb::ndarray<nb::numpy, double, nb::shape<-1, -1, -1>, nb::c_contig>;

template <typename E, size_t n>
E index_of(const std::string& name, const char* const (&names)[n], const char* message) {
    for (size_t i = 0; i < n; ++i)
        if (name == names[i]) return static_cast<E>(i);
    throw std::invalid_argument(message);
}

Stack stack(const In3& a) { return {a.data(), a.stride(0), a.stride(1), a.stride(2)}; }

Out3 mixture(const std::string& query, const std::string& noise, In1<double> weights, In3 mean,
             In3 epistemic_std, In3 aleatoric_std, In3 shape, At at,
             const std::optional<In1<double>>& normal_at, std::optional<double> power) {
    const MixtureQuery what = index_of<MixtureQuery>(query, {"logpdf", "cdf", "quantile", "crps"},
                                                     "the query is logpdf, cdf, quantile or crps");
    const NoiseRule rule = index_of<NoiseRule>(noise, {"gaussian", "log_normal", "student_t"},
                                               "the noise is gaussian, log_normal or student_t");
    for (const In3* a : {&epistemic_std, &aleatoric_std, &shape})
        for (size_t i = 0; i < 3; ++i)
            check(a->shape(i) == mean.shape(i), "the members differ in shape");
    check(weights.shape(0) == mean.shape(0) && mean.shape(0) > 0, "there is no weight per member");
    const bool of_tails = what == MixtureQuery::quantile;
    check(at.ndim() == (of_tails ? 1 : 3), "'at' does not have the axes of the query");
    check(of_tails == normal_at.has_value(), "normal quantiles are for quantiles");
    check(of_tails ? normal_at->shape(0) == at.shape(0)
                   : at.shape(1) == mean.shape(1) && at.shape(2) == mean.shape(2),
          "'at' does not fit the members");
    const size_t n_at = at.shape(0), n_rows = mean.shape(1), n_targets = mean.shape(2);
    double* data = new double[n_at * n_rows * n_targets + 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
    const size_t work = n_at * n_targets * mean.shape(0) * (rule == NoiseRule::gaussian ? 8 : 1000);
    const MixtureArgs args = {what,
                              rule,
                              static_cast<int64_t>(mean.shape(0)),
                              static_cast<int64_t>(n_rows),
                              static_cast<int64_t>(n_targets),
                              weights.data(),
                              stack(mean),
                              stack(epistemic_std),
                              stack(aleatoric_std),
                              stack(shape),
                              static_cast<int64_t>(n_at),
                              at.data(),
                              normal_at ? normal_at->data() : nullptr,
                              power ? &*power : nullptr,
                              data,
                              poll_every(work),
                              keep_going,
                              nullptr};
    run(active->mixture, args);
    return Out3(data, {n_at, n_rows, n_targets}, owner);
}

Out2<double> power_moments(In1<double> m, In1<double> epistemic_std, In1<double> aleatoric_std,
                           double power) {
    const size_t n = m.shape(0);
    check(epistemic_std.shape(0) == n && aleatoric_std.shape(0) == n,
          "the arrays differ in length");
    Out2<double> out = new_array<double>(3, n);
    const PowerArgs args = {
        m.data(), epistemic_std.data(), aleatoric_std.data(), static_cast<int64_t>(n),
        power,    out.data(),           poll_every(20000),    keep_going,
        nullptr};
    run(active->power_moments, args);
    return out;
}

}  // namespace

void define_mixture(nb::module_& m) {
    m.def("mixture", &mixture, "query"_a, "noise"_a, "weights"_a, "mean"_a, "epistemic_std"_a,
          "aleatoric_std"_a, "shape"_a, "at"_a, "normal_at"_a = nb::none(), "power"_a = nb::none(),
          "Log density, probability or CRPS of targets, or quantiles of tails: (n_at, rows, "
          "targets), of mixtures whose arrays are (members, rows, targets).");
    m.def(
        "power_moments", &power_moments, "m"_a, "epistemic_std"_a, "aleatoric_std"_a, "power"_a,
        "Mean and standard deviations, (3, n), of targets behind a Box-Cox transformation, in its "
        "unit.");
}

}  // namespace probprop

// Networks with weights drawn from q: rows where they lie, the output and its derivatives back.
#include <tuple>
#include <vector>

#include "bindings.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

template <typename T>  // in any order, with any strides
using Rows = nb::ndarray<const T, nb::shape<-1, -1>, nb::device::cpu>;

void check_network(const std::vector<int>& sizes, size_t n_weights) {
    check(sizes.size() >= 2 && sizes.back() == 1, "sizes needs an input layer and one output");
    size_t n = 0;
    for (size_t l = 0; l + 1 < sizes.size(); ++l) {
        check(sizes[l] > 0, "every layer needs a unit");
        n += static_cast<size_t>(sizes[l + 1]) * (static_cast<size_t>(sizes[l]) + 1);
    }
    check(n_weights == n, "weights do not fit sizes");
}

template <typename T>
std::tuple<Out1<double>, Out2<double>> sampled_outputs(const std::vector<int>& sizes, In1<double> w,
                                                       Rows<T> X, In1<double> x_mean,
                                                       In1<double> x_scale, double y_mean,
                                                       double y_scale, bool with_gradient) {
    check_network(sizes, w.shape(0));
    const size_t n = X.shape(0), n_features = static_cast<size_t>(sizes[0]);
    check(X.shape(1) == n_features, "X does not have sizes[0] columns");
    check(x_mean.shape(0) == n_features && x_scale.shape(0) == n_features,
          "the means and scales do not fit sizes");
    Out1<double> f = new_array<double>(n);
    Out2<double> df_dx = with_gradient ? new_array<double>(n, n_features) : new_array<double>(0, 0);
    const SampledArgs<T> args = {sizes.data(),
                                 static_cast<int>(sizes.size()) - 1,
                                 w.data(),
                                 X.data(),
                                 X.stride(0),
                                 X.stride(1),
                                 static_cast<int64_t>(n),
                                 x_mean.data(),
                                 x_scale.data(),
                                 y_mean,
                                 y_scale,
                                 f.data(),
                                 with_gradient ? df_dx.data() : nullptr};
    run(kernels<T>().sampled, args);
    return {f, df_dx};
}

template <typename T>
void define_for(nb::module_& m) {
    m.def("sampled_outputs", &sampled_outputs<T>, "sizes"_a, "w"_a, "X"_a.noconvert(), "x_mean"_a,
          "x_scale"_a, "y_mean"_a, "y_scale"_a, "with_gradient"_a = false,
          "f, (n,), of a network with known weights, and its derivatives by the entries of X, "
          "(n, D), else (0, 0).");
}

}  // namespace

void define_sampled(nb::module_& m) {
    define_for<double>(m);
    define_for<float>(m);
}

}  // namespace probprop

// Networks with weights drawn from q: rows where they lie, the output and its derivatives back.
#include <tuple>
#include <vector>

#include "bindings.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

template <typename T>  // in any order, with any strides
using Rows = nb::ndarray<const T, nb::shape<-1, -1>, nb::device::cpu>;

// The units of every layer, the input layer's first.
std::vector<int> sizes_of(const std::vector<In2<double>>& weights) {
    check(!weights.empty() && weights.back().shape(0) == 1, "the last layer needs one unit");
    std::vector<int> sizes;
    for (const In2<double>& w : weights) {
        check(w.shape(0) > 0 && w.shape(1) > 1, "every layer needs a unit");
        const int n_in = static_cast<int>(w.shape(1)) - 1;
        check(sizes.empty() || sizes.back() == n_in, "the layers do not fit each other");
        if (sizes.empty()) sizes.push_back(n_in);
        sizes.push_back(static_cast<int>(w.shape(0)));
    }
    return sizes;
}

template <typename T>
std::tuple<Out1<double>, Out2<double>> sampled_outputs(const std::vector<In2<double>>& weights,
                                                       Rows<T> X, In1<double> x_mean,
                                                       In1<double> x_scale, double y_mean,
                                                       double y_scale, bool with_gradient) {
    const std::vector<int> sizes = sizes_of(weights);
    std::vector<const double*> w;
    for (const In2<double>& layer : weights) w.push_back(layer.data());
    const size_t n = X.shape(0), n_features = static_cast<size_t>(sizes[0]);
    check(X.shape(1) == n_features, "X does not have a column for every feature");
    check(x_mean.shape(0) == n_features && x_scale.shape(0) == n_features,
          "the means and scales do not fit X");
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
    m.def("sampled_outputs", &sampled_outputs<T>, "weights"_a, "X"_a.noconvert(), "x_mean"_a,
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

// Networks with weights drawn from q: rows where they lie, the output and its derivatives back.
#include <tuple>
#include <vector>

#include "bindings.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

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

std::tuple<Out1<double>, Out2<double>> sampled_outputs(const std::vector<In2<double>>& weights,
                                                       const AnyRows& X_, In1<double> x_mean,
                                                       In1<double> x_scale, double y_mean,
                                                       double y_scale, bool with_gradient) {
    const Rows X = rows_of(X_);
    const std::vector<int> sizes = sizes_of(weights);
    std::vector<const double*> w;
    for (const In2<double>& layer : weights) w.push_back(layer.data());
    const size_t n = count_rows(X), n_features = static_cast<size_t>(sizes[0]);
    check(count_inputs(X) == n_features, "X does not have a column for every feature");
    check(x_mean.shape(0) == n_features && x_scale.shape(0) == n_features,
          "the means and scales do not fit X");
    check(X.filled.indptr == nullptr, "rows with filled inputs have no sampled outputs");
    Out1<double> f = new_array<double>(n);
    Out2<double> df_dx =
        with_gradient ? new_array<double>(n, count_columns(X)) : new_array<double>(0, 0);
    const SampledArgs args = {sizes.data(),  static_cast<int>(sizes.size()) - 1,
                              w.data(),      X,
                              x_mean.data(), x_scale.data(),
                              y_mean,        y_scale,
                              f.data(),      with_gradient ? df_dx.data() : nullptr};
    run(active->sampled, args);
    return {f, df_dx};
}

}  // namespace

void define_sampled(nb::module_& m) {
    m.def("sampled_outputs", &sampled_outputs, "weights"_a, "X"_a.noconvert(), "x_mean"_a,
          "x_scale"_a, "y_mean"_a, "y_scale"_a, "with_gradient"_a = false,
          "f, (n,), of a network with known weights, and its derivatives by the entries of X, "
          "(n, D), else (0, 0).");
}

}  // namespace probprop

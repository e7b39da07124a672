// nanobind: arrays in, GIL released, status out; no mathematics.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "kernel.hpp"
#include "prior.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace probprop;

template <typename T>
using In1 = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In2 = nb::ndarray<const T, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out1 = nb::ndarray<nb::numpy, T, nb::shape<-1>, nb::c_contig>;
template <typename T>
using Out2 = nb::ndarray<nb::numpy, T, nb::shape<-1, -1>, nb::c_contig>;

const Level* active = nullptr;  // chosen when the module is imported

// A new array that Python owns.
template <typename T>
Out1<T> new_array(size_t n) {
    T* data = new T[n > 0 ? n : 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Out1<T>(data, {n}, owner);
}
template <typename T>
Out2<T> new_array(size_t n_rows, size_t n_columns) {
    T* data = new T[n_rows * n_columns + 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Out2<T>(data, {n_rows, n_columns}, owner);
}
template <typename T>
Out1<T> copy_of(const In1<T>& a) {
    Out1<T> out = new_array<T>(a.shape(0));
    for (size_t i = 0; i < a.shape(0); ++i) out.data()[i] = a.data()[i];
    return out;
}

void check(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

// Returns the number of weights.
size_t check_sizes(const std::vector<int>& sizes) {
    check(sizes.size() >= 2, "sizes needs an input and an output layer");
    check(sizes.back() > 0, "every layer needs a unit");
    size_t n = 0;
    for (size_t l = 0; l + 1 < sizes.size(); ++l) {
        check(sizes[l] > 0, "every layer needs a unit");
        n += static_cast<size_t>(sizes[l + 1]) * (static_cast<size_t>(sizes[l]) + 1);
    }
    return n;
}

// Called without the GIL every few dozen milliseconds; false when Ctrl-C was pressed.
bool keep_going(void*) {
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() == 0;
}

int64_t poll_every(size_t n_weights) {  // about 30 ms of work
    const int64_t points = static_cast<int64_t>(30000000 / (n_weights + 100));
    return points > 0 ? points : 1;
}

void raise_unless_ok(Status status) {
    if (status == Status::interrupted) throw nb::python_error();
    if (status == Status::no_memory) throw std::bad_alloc();
}

// Of the prior factors the precisions, then capacity, every, alpha and beta of MemoryArgs.
template <typename T>
using Memory = std::tuple<In1<T>, double, int64_t, double, double>;

template <typename T>
MemoryArgs<T> memory_args(const std::optional<Memory<T>>& memory, size_t n_weights) {
    if (!memory) return {nullptr, 0.0, 0, 0.0, 0.0};
    const auto& [v_hat_nat, capacity, every, alpha, beta] = *memory;
    check(v_hat_nat.shape(0) == n_weights, "prior precisions do not fit sizes");
    check(capacity >= 1.0 && every >= 1, "memory must hold a point or more");
    return {v_hat_nat.data(), capacity, every, alpha, beta};
}

// Refuse targets that are none of this likelihood with this many outputs.
Likelihood check_targets(const std::string& likelihood, const In2<double>& y, int n_outputs) {
    const double* values = y.data();
    const size_t columns = y.shape(1), n = y.shape(0) * columns;
    if (likelihood == "gaussian") {
        check(columns == static_cast<size_t>(n_outputs), "y does not have a column per output");
        return Likelihood::gaussian;
    }
    if (likelihood == "probit") {
        check(columns == static_cast<size_t>(n_outputs), "y does not have a column per output");
        for (size_t i = 0; i < n; ++i)
            check(values[i] == 1.0 || values[i] == -1.0, "the targets of a probit are 1 or -1");
        return Likelihood::probit;
    }
    check(likelihood == "multinomial", "the likelihood is gaussian, probit or multinomial");
    check(n_outputs >= 2 && columns == 1, "classes need two outputs or more and one target");
    for (size_t i = 0; i < n; ++i)
        check(values[i] >= 0.0 && values[i] < n_outputs && values[i] == int(values[i]),
              "a target is not the index of a class");
    return Likelihood::multinomial;
}

template <typename T>
const T* variances_of(const std::optional<In2<T>>& X_var, const In2<T>& X) {
    if (!X_var) return nullptr;
    check(X_var->shape(0) == X.shape(0) && X_var->shape(1) == X.shape(1),
          "X and its variances differ in shape");
    return X_var->data();
}

// alpha, beta, log_Z_sum, n_undone, n_guarded, n_skipped.
using AdfReturn = std::tuple<Out1<double>, Out1<double>, double, int64_t, int64_t, int64_t>;

template <typename T>
std::tuple<Out1<T>, Out1<T>, AdfReturn> adf_pass(const std::vector<int>& sizes, In1<T> m_w,
                                                 In1<T> v_w, In2<T> X, In2<double> y,
                                                 In1<int64_t> order, const std::string& likelihood,
                                                 In1<double> alpha, In1<double> beta,
                                                 bool update_variance,
                                                 const std::optional<Memory<T>>& memory,
                                                 const std::optional<In2<T>>& X_var) {
    const size_t n_weights = check_sizes(sizes);
    check(m_w.shape(0) == n_weights && v_w.shape(0) == n_weights, "weights do not fit sizes");
    check(X.shape(1) == static_cast<size_t>(sizes[0]), "X does not have sizes[0] columns");
    check(X.shape(0) == y.shape(0), "X and y differ in length");
    const Likelihood kind = check_targets(likelihood, y, sizes.back());
    check(update_variance || kind == Likelihood::gaussian, "only a Gaussian can leave variances");
    const size_t n_noise = kind == Likelihood::gaussian ? static_cast<size_t>(sizes.back()) : 1;
    check(alpha.shape(0) == n_noise && beta.shape(0) == n_noise, "the noise does not fit sizes");
    for (size_t i = 0; i < order.shape(0); ++i)
        check(order.data()[i] >= 0 && static_cast<size_t>(order.data()[i]) < X.shape(0),
              "order points outside X");
    Out1<T> m_new = copy_of(m_w), v_new = copy_of(v_w);
    Out1<double> alpha_new = copy_of(alpha), beta_new = copy_of(beta);
    AdfArgs<T> args = {sizes.data(),
                       static_cast<int>(sizes.size()) - 1,
                       m_new.data(),
                       v_new.data(),
                       X.data(),
                       variances_of(X_var, X),
                       y.data(),
                       order.data(),
                       static_cast<int64_t>(order.shape(0)),
                       alpha_new.data(),
                       beta_new.data(),
                       kind,
                       update_variance,
                       memory_args<T>(memory, n_weights),
                       poll_every(n_weights),
                       keep_going,
                       nullptr};
    AdfResult result = {};
    Status status;
    {
        nb::gil_scoped_release no_gil;
        if constexpr (sizeof(T) == 8)
            status = active->adf_pass_f64(args, result);
        else
            status = active->adf_pass_f32(args, result);
    }
    raise_unless_ok(status);
    return {m_new, v_new,
            AdfReturn{alpha_new, beta_new, result.log_Z_sum, result.n_undone, result.n_guarded,
                      result.n_skipped}};
}

// The arguments of a prediction; the moments go to m and v, (n,).
template <typename T>
PredictArgs<T> predict_args(const std::vector<int>& sizes, const In1<T>& m_w, const In1<T>& v_w,
                            const In2<T>& X, const T* X_var, double* m, double* v) {
    const size_t n_weights = check_sizes(sizes);
    check(m_w.shape(0) == n_weights && v_w.shape(0) == n_weights, "weights do not fit sizes");
    check(X.shape(1) == static_cast<size_t>(sizes[0]), "X does not have sizes[0] columns");
    return {sizes.data(),
            static_cast<int>(sizes.size()) - 1,
            m_w.data(),
            v_w.data(),
            X.data(),
            X_var,
            static_cast<int64_t>(X.shape(0)),
            m,
            v,
            poll_every(n_weights),
            keep_going,
            nullptr};
}

template <typename T>
std::tuple<Out2<double>, Out2<double>> predict_moments(const std::vector<int>& sizes, In1<T> m_w,
                                                       In1<T> v_w, In2<T> X,
                                                       const std::optional<In2<T>>& X_var) {
    check_sizes(sizes);
    const size_t n = X.shape(0), n_outputs = static_cast<size_t>(sizes.back());
    Out2<double> m = new_array<double>(n, n_outputs), v = new_array<double>(n, n_outputs);
    const PredictArgs<T> args =
        predict_args(sizes, m_w, v_w, X, variances_of(X_var, X), m.data(), v.data());
    Status status;
    {
        nb::gil_scoped_release no_gil;
        if constexpr (sizeof(T) == 8)
            status = active->predict_f64(args);
        else
            status = active->predict_f32(args);
    }
    raise_unless_ok(status);
    return {m, v};
}

template <typename T>
std::tuple<Out1<double>, Out1<double>, Out2<double>, Out2<double>> predict_gradient(
    const std::vector<int>& sizes, In1<T> m_w, In1<T> v_w, In2<T> X) {
    check_sizes(sizes);
    check(sizes.back() == 1, "the gradient is that of one output");
    const size_t n = X.shape(0), n_features = X.shape(1);
    Out1<double> m = new_array<double>(n), v = new_array<double>(n);
    Out2<double> dm_dx = new_array<double>(n, n_features), dv_dx = new_array<double>(n, n_features);
    const GradientArgs<T> args = {predict_args<T>(sizes, m_w, v_w, X, nullptr, m.data(), v.data()),
                                  dm_dx.data(), dv_dx.data()};
    Status status;
    {
        nb::gil_scoped_release no_gil;
        if constexpr (sizeof(T) == 8)
            status = active->gradient_f64(args);
        else
            status = active->gradient_f32(args);
    }
    raise_unless_ok(status);
    return {m, v, dm_dx, dv_dx};
}

using SweepReturn = std::tuple<double, double, int64_t, int64_t>;

template <typename T>
std::tuple<Out1<T>, Out1<T>, Out1<double>, Out1<double>, Out1<double>, SweepReturn> refine(
    In1<T> m_w, In1<T> v_w, In1<double> v_hat_nat, In1<double> a_hat_nat, In1<double> b_hat_nat,
    double alpha, double beta, double informative_ratio) {
    const size_t n = m_w.shape(0);
    check(v_w.shape(0) == n && v_hat_nat.shape(0) == n && a_hat_nat.shape(0) == n &&
              b_hat_nat.shape(0) == n,
          "the arrays differ in length");
    Out1<T> m_new = copy_of(m_w), v_new = copy_of(v_w);
    Out1<double> v_hat = copy_of(v_hat_nat), a_hat = copy_of(a_hat_nat), b_hat = copy_of(b_hat_nat);
    SweepResult result;
    {
        nb::gil_scoped_release no_gil;
        result = refine_prior(m_new.data(), v_new.data(), v_hat.data(), a_hat.data(), b_hat.data(),
                              static_cast<int64_t>(n), alpha, beta, informative_ratio);
    }
    return {
        m_new, v_new,
        v_hat, a_hat,
        b_hat, SweepReturn{result.alpha, result.beta, result.n_skipped, result.n_uninformative}};
}

template <typename T>
nb::ndarray<nb::numpy, T, nb::shape<6, -1>, nb::c_contig> relu_moments(In1<T> m_a, In1<T> v_a) {
    const size_t n = m_a.shape(0);
    check(v_a.shape(0) == n, "m_a and v_a differ in length");
    T* data = new T[6 * n + 1];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    if constexpr (sizeof(T) == 8)
        active->relu_moments_f64(m_a.data(), v_a.data(), static_cast<int64_t>(n), data);
    else
        active->relu_moments_f32(m_a.data(), v_a.data(), static_cast<int64_t>(n), data);
    return nb::ndarray<nb::numpy, T, nb::shape<6, -1>, nb::c_contig>(data, {6, n}, owner);
}

using EvidenceReturn = std::tuple<double, Out1<double>, Out1<double>>;

// log Z of one point and its derivatives by the means and the variances of the outputs.
EvidenceReturn log_Z(Likelihood likelihood, const In1<double>& m, const In1<double>& v,
                     const double* y, const double* noise_variance) {
    const size_t n = m.shape(0);
    check(v.shape(0) == n, "m and v differ in length");
    Out1<double> d_m = new_array<double>(n), d_v = new_array<double>(n);
    const EvidenceArgs args = {likelihood,          m.data(),   v.data(),  y, noise_variance,
                               static_cast<int>(n), d_m.data(), d_v.data()};
    double value;
    raise_unless_ok(active->log_Z(args, value));
    return {value, d_m, d_v};
}

EvidenceReturn log_Z_gaussian(In1<double> m, In1<double> v, In1<double> y,
                              In1<double> noise_variance) {
    check(y.shape(0) == m.shape(0) && noise_variance.shape(0) == m.shape(0),
          "the arrays differ in length");
    return log_Z(Likelihood::gaussian, m, v, y.data(), noise_variance.data());
}

EvidenceReturn log_Z_probit(In1<double> m, In1<double> v, In1<double> y) {
    check(y.shape(0) == m.shape(0), "the arrays differ in length");
    return log_Z(Likelihood::probit, m, v, y.data(), nullptr);
}

EvidenceReturn log_Z_multinomial(In1<double> m, In1<double> v, int c) {
    check(c >= 0 && static_cast<size_t>(c) < m.shape(0), "c is not the index of a class");
    const double y = c;
    return log_Z(Likelihood::multinomial, m, v, &y, nullptr);
}

Out2<double> class_log_probabilities(In2<double> m, In2<double> v) {
    const size_t n = m.shape(0), n_classes = m.shape(1);
    check(v.shape(0) == n && v.shape(1) == n_classes, "m and v differ in shape");
    Out2<double> log_p = new_array<double>(n, n_classes);
    const ClassArgs args = {m.data(),
                            v.data(),
                            static_cast<int64_t>(n),
                            static_cast<int>(n_classes),
                            log_p.data(),
                            poll_every(300 * n_classes * n_classes),  // in weights of a network
                            keep_going,
                            nullptr};
    Status status;
    {
        nb::gil_scoped_release no_gil;
        status = active->class_log_probabilities(args);
    }
    raise_unless_ok(status);
    return log_p;
}

std::tuple<double, double> as_tuple(GammaShapeRate g) { return {g.alpha, g.beta}; }

template <typename T>
void define_for(nb::module_& m) {
    m.def("adf_pass", &adf_pass<T>, "sizes"_a, "m_w"_a, "v_w"_a, "X"_a, "y"_a, "order"_a,
          "likelihood"_a, "alpha"_a, "beta"_a, "update_variance"_a = true, "memory"_a = nb::none(),
          "X_var"_a = nb::none(),
          "One ADF pass; returns (m_w, v_w, (alpha, beta, log_Z_sum, n_undone, n_guarded, "
          "n_skipped)).");
    m.def("predict_moments", &predict_moments<T>, "sizes"_a, "m_w"_a, "v_w"_a, "X"_a,
          "X_var"_a = nb::none(), "Mean and variance of the outputs per row, without noise.");
    m.def("predict_gradient", &predict_gradient<T>, "sizes"_a, "m_w"_a, "v_w"_a, "X"_a,
          "Those moments, (n,) each, and their derivatives by the entries of X, (n, D) each.");
    m.def("refine_prior", &refine<T>, "m_w"_a, "v_w"_a, "v_hat_nat"_a, "a_hat_nat"_a, "b_hat_nat"_a,
          "alpha"_a, "beta"_a, "informative_ratio"_a,
          "One sweep over the prior factors; returns (m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, "
          "(alpha, beta, n_skipped, n_uninformative)).");
    m.def("relu_moments", &relu_moments<T>, "m_a"_a, "v_a"_a,
          "Rows m_z, v_z, dm_z/dm, dm_z/dv, dv_z/dm, dv_z/dv.");
}

}  // namespace

NB_MODULE(_kernel, m) {
    m.doc() = "The compiled kernels of probprop; use them through probprop.inference.engine.";
    const Level* levels[4];
    const int n_levels = available_levels(levels);
    std::vector<std::string> names;
    for (int i = 0; i < n_levels; ++i) names.push_back(levels[i]->name);
    active = chosen_level();
    if (active == nullptr) {
        std::string message = "PROBPROP_CPU_LEVEL must be one of";
        for (const std::string& name : names) message += " " + name;
        throw std::runtime_error(message + " on this machine; unset it to use the fastest.");
    }
    m.def("cpu_level", [] { return std::string(active->name); }, "The instruction set in use.");
    m.def("cpu_levels", [names] { return names; }, "Those this machine can run, fastest first.");
    define_for<double>(m);
    define_for<float>(m);
    m.def("log_Z_gaussian", &log_Z_gaussian, "m"_a, "v"_a, "y"_a, "noise_variance"_a,
          "log Z of one point, and its derivatives by m and by v, (K,) each.");
    m.def("log_Z_probit", &log_Z_probit, "m"_a, "v"_a, "y"_a, "The same for labels of +1 and -1.");
    m.def("log_Z_multinomial", &log_Z_multinomial, "m"_a, "v"_a, "c"_a,
          "The same for the class c, the index of the largest output.");
    m.def("class_log_probabilities", &class_log_probabilities, "m"_a, "v"_a,
          "The log of the probability of every class, (n, K), from the outputs' moments.");
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

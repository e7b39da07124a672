// What the bindings share: arrays in and out, checks, and kernels called without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "kernel.hpp"

namespace nb = nanobind;

namespace probprop {

template <typename T>
using In1 = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In2 = nb::ndarray<const T, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;  // of either precision
template <typename T>
using Out1 = nb::ndarray<nb::numpy, T, nb::shape<-1>, nb::c_contig>;
template <typename T>
using Out2 = nb::ndarray<nb::numpy, T, nb::shape<-1, -1>, nb::c_contig>;

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

inline void check(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

// The tails of n outputs, a copy; none: each is 0.
inline Out1<double> tails_of(const std::optional<In1<double>>& tail, int n) {
    const size_t n_outputs = static_cast<size_t>(n);
    check(!tail || tail->shape(0) == n_outputs, "there is no tail per output");
    Out1<double> out = new_array<double>(n_outputs);
    for (size_t k = 0; k < n_outputs; ++k) out.data()[k] = tail ? tail->data()[k] : 0.0;
    return out;
}

inline const Level* active = nullptr;  // chosen when the module is imported

// The kernels in use, for weights of type T.
template <typename T>
const Kernels<T>& kernels() {
    if constexpr (sizeof(T) == sizeof(double))
        return active->f64;
    else
        return active->f32;
}

inline void raise_unless_ok(Status status) {
    if (status == Status::interrupted) throw nb::python_error();
    if (status == Status::no_memory) throw std::bad_alloc();
    if (status == Status::too_large) throw std::overflow_error("X contains a value too large");
}

// Call a kernel that returns a Status, while other Python threads run.
template <typename Kernel, typename... Args>
void run(Kernel kernel, Args&&... args) {
    Status status;
    {
        nb::gil_scoped_release no_gil;
        status = kernel(args...);
    }
    raise_unless_ok(status);
}

// The index of a likelihood in the list.
inline int likelihood_index(const std::string& name) {
    const int n = active->n_likelihoods;
    std::string message = "the likelihood is ";
    for (int i = 0; i < n; ++i) {
        if (name == active->likelihoods[i].name) return i;
        message += std::string(i == 0 ? "" : i < n - 1 ? ", " : " or ");
        message += active->likelihoods[i].name;
    }
    throw std::invalid_argument(message);
}

// Refuse targets that are none of this likelihood with this many outputs.
inline void check_targets(const LikelihoodInfo& likelihood, const Matrix& y, int n_outputs) {
    const char* objection = likelihood.objection(y, n_outputs);
    check(objection == nullptr, objection);
}

// Returns the number of weights.
inline size_t check_sizes(const std::vector<int>& sizes) {
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
inline bool keep_going(void*) {
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() == 0;
}

inline int64_t poll_every(size_t n_weights) {  // about 30 ms of work
    const int64_t points = static_cast<int64_t>(30000000 / (n_weights + 100));
    return points > 0 ? points : 1;
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

// Of AdfArgs the weights, the variances of the targets, and the power.
using Weighting = std::tuple<std::optional<In1<double>>, std::optional<In2<double>>, double>;

template <typename T>
void set_weighting(AdfArgs<T>& args, const std::optional<Weighting>& weighting, size_t n,
                   const LikelihoodInfo& likelihood) {
    args.power = 1.0;
    if (!weighting) return;
    const auto& [weights, y_var, power] = *weighting;
    if (weights) {
        check(weights->shape(0) == n, "X and the weights differ in length");
        for (size_t i = 0; i < n; ++i)
            check(weights->data()[i] > 0.0 && weights->data()[i] < HUGE_VAL,
                  "a weight is not above 0 and finite");
        args.weights = weights->data();
    }
    if (y_var) {
        check(y_var->shape(0) == n && y_var->shape(1) == size_t(args.sizes[args.n_layers]),
              "the variances of the targets are not (rows, outputs)");
        for (size_t i = 0; i < y_var->size(); ++i)
            check(y_var->data()[i] >= 0.0 && y_var->data()[i] < HUGE_VAL,
                  "a variance of a target is negative or not finite");
        args.y_var = y_var->data();
    }
    check(power > 0.0 && power < HUGE_VAL, "the power is not above 0 and finite");
    check(power == 1.0 || !likelihood.weights_divide_noise, "this likelihood has no power");
    args.power = power;
}

template <typename T>
const T* variances_of(const std::optional<In2<T>>& X_var, const AnyMatrix& X) {
    if (!X_var) return nullptr;
    check(X_var->shape(0) == X.shape(0) && X_var->shape(1) == X.shape(1),
          "X and its variances differ in shape");
    return X_var->data();
}

inline Matrix matrix(const AnyMatrix& a) {
    const bool single = a.dtype() == nb::dtype<float>();
    check(single || a.dtype() == nb::dtype<double>(), "X and y are of single or double precision");
    check(a.shape(1) <= 1u << 30, "there are too many columns");
    return {a.data(),    single,     static_cast<int64_t>(a.shape(0)), static_cast<int>(a.shape(1)),
            a.stride(0), a.stride(1)};
}

// Mean and scale of every column, and how many scales from the mean an entry may lie.
using Standardizer = std::tuple<In1<double>, In1<double>, double>;

inline Scaling scaling_of(const std::optional<Standardizer>& scaling, size_t n_columns) {
    if (!scaling) return {nullptr, nullptr, 0.0};
    const auto& [mean, scale, largest] = *scaling;
    check(mean.shape(0) == n_columns && scale.shape(0) == n_columns,
          "mean and scale do not have an entry per column");
    return {mean.data(), scale.data(), largest};
}

// The arguments of a pass, but for where its results go, its order and its poll.
template <typename T>
AdfArgs<T> pass_args(const std::vector<int>& sizes, const In1<T>& m_w, const In1<T>& v_w,
                     const AnyMatrix& X, const std::optional<Standardizer>& X_scaling,
                     const std::optional<In2<T>>& X_var, const AnyMatrix& y,
                     const std::optional<Standardizer>& y_scaling, const std::string& likelihood,
                     const In1<double>& alpha, const In1<double>& beta,
                     const std::optional<Memory<T>>& memory,
                     const std::optional<Weighting>& weighting) {
    const size_t n_weights = check_sizes(sizes);
    check(m_w.shape(0) == n_weights && v_w.shape(0) == n_weights, "weights do not fit sizes");
    check(X.shape(1) == static_cast<size_t>(sizes[0]), "X does not have sizes[0] columns");
    check(X.shape(0) == y.shape(0), "X and y differ in length");
    const int index = likelihood_index(likelihood);
    const LikelihoodInfo& info = active->likelihoods[index];
    check_targets(info, matrix(y), sizes.back());
    const size_t n_noise = static_cast<size_t>(info.n_noise(sizes.back()));
    check(alpha.shape(0) == n_noise && beta.shape(0) == n_noise, "the noise does not fit sizes");
    AdfArgs<T> args = {};
    args.sizes = sizes.data();
    args.n_layers = static_cast<int>(sizes.size()) - 1;
    args.X = matrix(X);
    args.X_scaling = scaling_of(X_scaling, X.shape(1));
    args.X_var = variances_of(X_var, X);
    args.y = matrix(y);
    args.y_scaling = scaling_of(y_scaling, y.shape(1));
    args.likelihood = index;
    args.memory = memory_args<T>(memory, n_weights);
    set_weighting(args, weighting, X.shape(0), info);
    args.poll_every = poll_every(n_weights);
    return args;
}

void define_training(nb::module_& m);   // in bindings_training.cpp
void define_sampled(nb::module_& m);    // in bindings_sampled.cpp
void define_mixture(nb::module_& m);    // in bindings_mixture.cpp
void define_for_tests(nb::module_& m);  // in bindings_for_tests.cpp

}  // namespace probprop

// What the bindings share: arrays in and out, checks, and kernels called without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <stdexcept>
#include <string>

#include "kernel.hpp"

namespace nb = nanobind;

namespace probprop {

template <typename T>
using In1 = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In2 = nb::ndarray<const T, nb::shape<-1, -1>, nb::c_contig, nb::device::cpu>;
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
inline void check_targets(const LikelihoodInfo& likelihood, const Targets& y, int n_outputs) {
    const char* objection = likelihood.objection(y, n_outputs);
    check(objection == nullptr, objection);
}

void define_sampled(nb::module_& m);    // in bindings_sampled.cpp
void define_for_tests(nb::module_& m);  // in bindings_for_tests.cpp

}  // namespace probprop

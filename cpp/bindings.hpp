// What the bindings share: arrays in and out, checks, and kernels called without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "kernel.hpp"
#include "prior.hpp"

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

// Reject targets that are invalid for this likelihood and this number of outputs.
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

// The precisions of the prior factors, then capacity, every, alpha and beta of MemoryArgs.
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

// The weights, the variances of the targets and the power of AdfArgs.
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

inline Matrix matrix(const AnyMatrix& a) {
    const bool single = a.dtype() == nb::dtype<float>();
    check(single || a.dtype() == nb::dtype<double>(), "X and y are of single or double precision");
    check(a.shape(1) <= 1u << 30, "there are too many columns");
    return {a.data(),    single,     static_cast<int64_t>(a.shape(0)), static_cast<int>(a.shape(1)),
            a.stride(0), a.stride(1)};
}

// ---- Rows: a matrix, or lists of the inputs that are not 0

// A basis with the arrays it is made of, which are checked once.
class BasisArrays {
  public:
    BasisArrays(In1<int64_t> first_knot_, In1<double> knots_, In1<double> origin_,
                In1<int64_t> first_term_, In1<int32_t> input_, In1<double> at_origin_,
                In1<double> slope_, int n_inputs)
        : first_knot(first_knot_),
          knots(knots_),
          origin(origin_),
          first_term(first_term_),
          input(input_),
          at_origin(at_origin_),
          slope(slope_) {
        check(first_knot.shape(0) >= 2 && first_knot.shape(0) <= 1u << 30,
              "a basis needs a column, and there are too many");
        const int n_columns = static_cast<int>(first_knot.shape(0)) - 1;
        check_offsets(first_knot, knots.shape(0));
        check(origin.shape(0) == knots.shape(0) + static_cast<size_t>(n_columns),
              "origin does not have an entry per interval");
        check(first_term.shape(0) == origin.shape(0) + 1,
              "first_term does not have an entry per interval and one more");
        check_offsets(first_term, input.shape(0));
        check(at_origin.shape(0) == input.shape(0) && slope.shape(0) == input.shape(0),
              "the terms differ in length");
        basis = {n_columns,         n_inputs,     first_knot.data(), knots.data(), origin.data(),
                 first_term.data(), input.data(), at_origin.data(),  slope.data()};
        check_columns();
    }
    BasisArrays(const BasisArrays&) = delete;
    Basis basis;

  private:
    static void check_offsets(const In1<int64_t>& offsets, size_t end) {
        const size_t n = offsets.shape(0);
        check(offsets.data()[0] == 0 && offsets.data()[n - 1] == static_cast<int64_t>(end),
              "offsets do not begin at 0 and end with the number of entries");
        for (size_t i = 1; i < n; ++i)
            check(offsets.data()[i - 1] <= offsets.data()[i], "offsets do not ascend");
    }
    // Knots ascend, and no input occurs twice in a row: no two columns share an input.
    void check_columns() const {
        std::vector<int64_t> seen(static_cast<size_t>(basis.n_inputs > 0 ? basis.n_inputs : 0), -1);
        std::vector<int> owner(seen.size(), -1);
        for (int c = 0; c < basis.n_columns; ++c) {
            const int64_t first = basis.first_knot[c], last = basis.first_knot[c + 1];
            for (int64_t k = first + 1; k < last; ++k)
                check(basis.knots[k - 1] < basis.knots[k], "the knots of a column do not ascend");
            for (int64_t i = first + c; i <= last + c; ++i)
                for (int64_t t = basis.first_term[i]; t < basis.first_term[i + 1]; ++t) {
                    check(basis.input[t] >= 0 && basis.input[t] < basis.n_inputs,
                          "a term is of no input");
                    const size_t j = static_cast<size_t>(basis.input[t]);
                    check(seen[j] != i, "an input has two terms in one interval");
                    check(owner[j] == -1 || owner[j] == c, "an input is of two columns");
                    seen[j] = i;
                    owner[j] = c;
                }
        }
    }

    In1<int64_t> first_knot;
    In1<double> knots, origin;
    In1<int64_t> first_term;
    In1<int32_t> input;
    In1<double> at_origin, slope;
};

// Rows of which only inputs that are not 0 are looked at: compressed (CSR), or by a basis.
class ListedRows {
  public:
    using Values = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

    ListedRows(In1<int64_t> indptr_, In1<int32_t> indices_, Values values_, int n_inputs_)
        : n_inputs(n_inputs_), indptr(indptr_), indices(indices_), values(values_) {
        check_lists(values.shape(0));
        const bool single = values.dtype() == nb::dtype<float>();
        check(single || values.dtype() == nb::dtype<double>(),
              "values are of single or double precision");
        rows = {{values.data(), single, static_cast<int64_t>(indptr.shape(0)) - 1, n_inputs, 0, 1},
                indptr.data(),
                indices.data(),
                nullptr,
                {}};
    }
    // What is filled: where a row begins, inputs, means and variances.
    using FilledInputs = std::tuple<In1<int64_t>, In1<int32_t>, In1<double>, In1<double>>;

    ListedRows(AnyMatrix X_, std::shared_ptr<BasisArrays> basis_,
               const std::optional<FilledInputs>& filled)
        : n_inputs(basis_->basis.n_inputs), X(X_), basis(std::move(basis_)) {
        check(X.shape(1) == static_cast<size_t>(basis->basis.n_columns),
              "X does not have the columns of the basis");
        rows = {matrix(X), nullptr, nullptr, &basis->basis, {}};
        if (!filled) return;
        std::tie(indptr, indices, mean, variance) = *filled;
        check(indptr.shape(0) == X.shape(0) + 1, "X and what is filled differ in length");
        check(variance.shape(0) == mean.shape(0), "means and variances differ in length");
        check_lists(mean.shape(0));
        rows.filled = {indptr.data(), indices.data(), mean.data(), variance.data()};
    }
    Rows rows;
    int n_inputs;

  private:
    // Ascending indices: none occurs twice, and a list is never longer than there are inputs.
    void check_lists(size_t n) const {
        check(indices.shape(0) == n, "indices and values differ in length");
        check(indptr.shape(0) >= 1 && indptr.data()[0] == 0 &&
                  indptr.data()[indptr.shape(0) - 1] == static_cast<int64_t>(n),
              "indptr does not begin at 0 and end with the number of values");
        for (size_t i = 0; i + 1 < indptr.shape(0); ++i) {
            const int64_t first = indptr.data()[i], last = indptr.data()[i + 1];
            check(first <= last && last <= static_cast<int64_t>(n), "indptr does not ascend");
            int32_t before = -1;
            for (int64_t k = first; k < last; before = indices.data()[k++])
                check(before < indices.data()[k], "the indices of a row do not ascend");
            check(before < n_inputs, "an index is of no input");
        }
    }

    In1<int64_t> indptr;
    In1<int32_t> indices;
    In1<double> mean, variance;
    Values values;
    AnyMatrix X;
    std::shared_ptr<BasisArrays> basis;
};

using AnyRows = std::variant<AnyMatrix, ListedRows>;

inline Rows rows_of(const AnyRows& X) {
    if (const ListedRows* listed = std::get_if<ListedRows>(&X)) return listed->rows;
    return {matrix(std::get<AnyMatrix>(X)), nullptr, nullptr, nullptr, {}};
}
inline size_t count_rows(const Rows& X) { return static_cast<size_t>(X.X.n_rows); }
inline size_t count_inputs(const Rows& X) {
    return static_cast<size_t>(X.basis == nullptr ? X.X.n_columns : X.basis->n_inputs);
}
// The columns by which derivatives are taken.
inline size_t count_columns(const Rows& X) { return static_cast<size_t>(X.X.n_columns); }

// How the prior factors of a network with these layers are refined.
inline SweepArgs sweep_args(const std::vector<int>& sizes, const std::optional<In1<int>>& group,
                            double informative_ratio) {
    SweepArgs args = {sizes.data(), int(sizes.size()) - 1, nullptr, nullptr, 0, informative_ratio};
    if (!group) return args;
    check(group->shape(0) == size_t(sizes[0]), "group must have an entry per input");
    args.group = group->data();
    for (int j = 0; j < sizes[0]; ++j) {
        check(args.group[j] >= 0 && args.group[j] <= sizes[0], "group must be 0 to n_inputs");
        if (args.group[j] >= args.n_groups) args.n_groups = args.group[j] + 1;
    }
    return args;
}

template <typename T>
const T* variances_of(const std::optional<In2<T>>& X_var, const Rows& X) {
    if (!X_var) return nullptr;
    check(X.indptr == nullptr && X.basis == nullptr, "listed rows have no variances");
    check(X_var->shape(0) == count_rows(X) && X_var->shape(1) == count_inputs(X),
          "X and its variances differ in shape");
    return X_var->data();
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
                     const Rows& X, const std::optional<Standardizer>& X_scaling,
                     const std::optional<In2<T>>& X_var, const AnyMatrix& y,
                     const std::optional<Standardizer>& y_scaling, const std::string& likelihood,
                     const In1<double>& alpha, const In1<double>& beta,
                     const std::optional<Memory<T>>& memory,
                     const std::optional<Weighting>& weighting) {
    const size_t n_weights = check_sizes(sizes);
    check(m_w.shape(0) == n_weights && v_w.shape(0) == n_weights, "weights do not fit sizes");
    check(count_inputs(X) == static_cast<size_t>(sizes[0]), "X does not have sizes[0] columns");
    check(count_rows(X) == y.shape(0), "X and y differ in length");
    const int index = likelihood_index(likelihood);
    const LikelihoodInfo& info = active->likelihoods[index];
    check_targets(info, matrix(y), sizes.back());
    const size_t n_noise = static_cast<size_t>(info.n_noise(sizes.back()));
    check(alpha.shape(0) == n_noise && beta.shape(0) == n_noise, "the noise does not fit sizes");
    AdfArgs<T> args = {};
    args.sizes = sizes.data();
    args.n_layers = static_cast<int>(sizes.size()) - 1;
    args.X = X;
    args.X_scaling = scaling_of(X_scaling, count_inputs(X));
    args.X_var = variances_of(X_var, X);
    args.y = matrix(y);
    args.y_scaling = scaling_of(y_scaling, y.shape(1));
    args.likelihood = index;
    args.memory = memory_args<T>(memory, n_weights);
    set_weighting(args, weighting, count_rows(X), info);
    args.poll_every = poll_every(n_weights);
    return args;
}

void define_training(nb::module_& m);   // in bindings_training.cpp
void define_sampled(nb::module_& m);    // in bindings_sampled.cpp
void define_mixture(nb::module_& m);    // in bindings_mixture.cpp
void define_for_tests(nb::module_& m);  // in bindings_for_tests.cpp

}  // namespace probprop

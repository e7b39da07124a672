// nanobind: arrays in, GIL released, status out; no mathematics.
#include "bindings.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "prior.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

// alpha, beta, log_Z_sum, n_undone, n_guarded, n_skipped, d_tail_sum.
using AdfReturn =
    std::tuple<Out1<double>, Out1<double>, double, int64_t, int64_t, int64_t, Out1<double>>;

template <typename T>
std::tuple<Out1<T>, Out1<T>, AdfReturn> adf_pass(
    const std::vector<int>& sizes, In1<T> m_w, In1<T> v_w, const AnyRows& X_, AnyMatrix y,
    In1<int64_t> order, const std::string& likelihood, In1<double> alpha, In1<double> beta,
    const std::optional<Memory<T>>& memory, const std::optional<In2<T>>& X_var,
    const std::optional<Weighting>& weighting, const std::optional<In1<double>>& tail) {
    const Rows X = rows_of(X_);
    AdfArgs<T> args = pass_args<T>(sizes, m_w, v_w, X, {}, X_var, y, {}, likelihood, alpha, beta,
                                   memory, weighting);
    for (size_t i = 0; i < order.shape(0); ++i)
        check(order.data()[i] >= 0 && order.data()[i] < X.X.n_rows, "order points outside X");
    Out1<T> m_new = copy_of(m_w), v_new = copy_of(v_w);
    Out1<double> alpha_new = copy_of(alpha), beta_new = copy_of(beta);
    args.m_w = m_new.data();
    args.v_w = v_new.data();
    args.alpha = alpha_new.data();
    args.beta = beta_new.data();
    const Out1<double> tails = tails_of(tail, sizes.back());
    Out1<double> d_tail_sum = tails_of({}, sizes.back());
    args.tail = tails.data();
    args.d_tail_sum = d_tail_sum.data();
    args.order = {nullptr, order.data()};
    args.n_points = static_cast<int64_t>(order.shape(0));
    args.keep_going = keep_going;
    AdfResult result = {};
    run(kernels<T>().adf_pass, args, result);
    return {m_new, v_new,
            AdfReturn{alpha_new, beta_new, result.log_Z_sum, result.n_undone, result.n_guarded,
                      result.n_skipped, d_tail_sum}};
}

// The arguments of a prediction; the moments go to m and v, (n, units of the output layer).
template <typename T>
PredictArgs<T> predict_args(const std::vector<int>& sizes, const In1<T>& m_w, const In1<T>& v_w,
                            const Rows& X, const std::optional<Standardizer>& scaling,
                            const T* X_var, double* m, double* v) {
    const size_t n_weights = check_sizes(sizes);
    check(m_w.shape(0) == n_weights && v_w.shape(0) == n_weights, "weights do not fit sizes");
    check(count_inputs(X) == static_cast<size_t>(sizes[0]), "X does not have sizes[0] columns");
    return {sizes.data(),
            static_cast<int>(sizes.size()) - 1,
            m_w.data(),
            v_w.data(),
            X,
            scaling_of(scaling, count_inputs(X)),
            X_var,
            m,
            v,
            poll_every(n_weights),
            keep_going,
            nullptr};
}

template <typename T>
std::tuple<Out2<double>, Out2<double>> predict_moments(const std::vector<int>& sizes, In1<T> m_w,
                                                       In1<T> v_w, const AnyRows& X_,
                                                       const std::optional<In2<T>>& X_var,
                                                       const std::optional<Standardizer>& scaling) {
    check_sizes(sizes);
    const Rows X = rows_of(X_);
    const size_t n = count_rows(X), n_outputs = static_cast<size_t>(sizes.back());
    Out2<double> m = new_array<double>(n, n_outputs), v = new_array<double>(n, n_outputs);
    const PredictArgs<T> args =
        predict_args(sizes, m_w, v_w, X, scaling, variances_of(X_var, X), m.data(), v.data());
    run(kernels<T>().predict, &args, 1);
    return {m, v};
}

template <typename T>
std::tuple<Out1<double>, Out1<double>, Out2<double>, Out2<double>> predict_gradient(
    const std::vector<int>& sizes, In1<T> m_w, In1<T> v_w, const AnyRows& X_,
    const std::optional<Standardizer>& scaling) {
    const Rows X = rows_of(X_);
    check_sizes(sizes);
    check(sizes.back() == 1, "the gradient is defined for one output");
    check(X.filled.indptr == nullptr, "rows with filled inputs have no gradient");
    const size_t n = count_rows(X), n_features = count_columns(X);
    Out1<double> m = new_array<double>(n), v = new_array<double>(n);
    Out2<double> dm_dx = new_array<double>(n, n_features), dv_dx = new_array<double>(n, n_features);
    const GradientArgs<T> args = {
        predict_args<T>(sizes, m_w, v_w, X, scaling, nullptr, m.data(), v.data()), dm_dx.data(),
        dv_dx.data()};
    run(kernels<T>().gradient, args);
    return {m, v, dm_dx, dv_dx};
}

// ---- The networks of an ensemble, which see the same rows: one call for all of them.

// Layers, means and variances of the weights, and what standardizes the rows.
template <typename T>
using Member = std::tuple<std::vector<int>, In1<T>, In1<T>, std::optional<Standardizer>>;
template <typename T>
using Out3 = nb::ndarray<nb::numpy, T, nb::shape<-1, -1, -1>, nb::c_contig>;

template <typename T>
class Members {
  public:
    explicit Members(std::vector<Member<T>> members_) : members(std::move(members_)) {
        check(!members.empty(), "an ensemble needs a member");
        const std::vector<int>& first = std::get<0>(members[0]);
        for (const auto& [sizes, m_w, v_w, scaling] : members) {
            const size_t n_weights = check_sizes(sizes);
            check(m_w.shape(0) == n_weights && v_w.shape(0) == n_weights,
                  "weights do not fit sizes");
            check(sizes.front() == first.front() && sizes.back() == first.back(),
                  "members differ in their inputs or outputs");
            scaling_of(scaling, static_cast<size_t>(sizes.front()));
        }
    }

    // Mean and variance of the outputs, (members, rows, outputs) each.
    std::tuple<Out3<double>, Out3<double>> moments(const AnyRows& X_, int n_threads) const {
        const Rows X = rows_of(X_);
        const size_t n_members = members.size(), n = count_rows(X);
        const size_t n_outputs = static_cast<size_t>(std::get<0>(members[0]).back());
        Out3<double> m = new_array3(n_members, n, n_outputs);
        Out3<double> v = new_array3(n_members, n, n_outputs);
        // Each thread has some of the members.
        const size_t most = n_threads < 2 ? 1 : static_cast<size_t>(n_threads);
        std::vector<std::vector<PredictArgs<T>>> calls(std::min(n_members, most));
        for (size_t s = 0; s < n_members; ++s) {
            const auto& [sizes, m_w, v_w, scaling] = members[s];
            const size_t at = s * n * n_outputs;
            calls[s % calls.size()].push_back(predict_args<T>(sizes, m_w, v_w, X, scaling, nullptr,
                                                              m.data() + at, v.data() + at));
        }
        Status status;
        {
            nb::gil_scoped_release no_gil;
            status = each(calls);
        }
        raise_unless_ok(status);
        return {m, v};
    }

  private:
    static Out3<double> new_array3(size_t a, size_t b, size_t c) {
        double* data = new double[a * b * c + 1];
        nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<double*>(p); });
        return Out3<double>(data, {a, b, c}, owner);
    }

    // Only the first thread looks for Ctrl-C: the exception that is set must be raised there.
    static Status each(std::vector<std::vector<PredictArgs<T>>>& calls) {
        std::vector<Status> status(calls.size(), Status::ok);
        std::atomic<bool> stopped{false};
        const auto work = [&](size_t k) {
            for (PredictArgs<T>& args : calls[k]) {
                args.context = &stopped;
                args.keep_going = k == 0 ? keep_going : not_stopped;
            }
            status[k] = kernels<T>().predict(calls[k].data(), static_cast<int>(calls[k].size()));
            if (status[k] != Status::ok) stopped = true;
        };
        std::vector<std::thread> threads;
        for (size_t k = 1; k < calls.size(); ++k) threads.emplace_back(work, k);
        work(0);
        for (std::thread& thread : threads) thread.join();
        if (status[0] != Status::ok) return status[0];
        Status worst = Status::ok;  // of any other that did not stop for another
        for (const Status each : status)
            if (each != Status::ok && each != Status::interrupted) worst = each;
        return worst;
    }

    static bool not_stopped(void* stopped) {
        return !static_cast<std::atomic<bool>*>(stopped)->load();
    }

    std::vector<Member<T>> members;
};

template <typename T>
void define_members(nb::module_& m, const char* name) {
    nb::class_<Members<T>>(m, name, "The networks of an ensemble, which see the same rows.")
        .def(nb::init<std::vector<Member<T>>>(), "members"_a,
             "Each is (sizes, m_w, v_w, scaling or None).")
        .def("moments", &Members<T>::moments, "X"_a, "n_threads"_a = 1,
             "Mean and variance of the outputs, (members, rows, outputs) each, without noise.");
}

void define_rows(nb::module_& m) {
    nb::class_<BasisArrays>(m, "Basis",
                            "Piecewise-linear functions of columns; see cpp/kernel.hpp.")
        .def(nb::init<In1<int64_t>, In1<double>, In1<double>, In1<int64_t>, In1<int32_t>,
                      In1<double>, In1<double>, int>(),
             "first_knot"_a, "knots"_a, "origin"_a, "first_term"_a, "input"_a, "at_origin"_a,
             "slope"_a, "n_inputs"_a);
    nb::class_<ListedRows>(m, "ListedRows",
                           "Rows of which only inputs that are not 0 are looked at.")
        .def(nb::init<In1<int64_t>, In1<int32_t>, ListedRows::Values, int>(), "indptr"_a,
             "indices"_a, "values"_a, "n_inputs"_a, "Compressed rows (CSR).")
        .def(nb::init<AnyMatrix, std::shared_ptr<BasisArrays>,
                      const std::optional<ListedRows::FilledInputs>&>(),
             "X"_a, "basis"_a, "filled"_a = nb::none(),
             "The columns of X by a basis; where they are NaN the inputs that are filled.");
}

using SweepReturn = std::tuple<double, double, int64_t, int64_t>;

template <typename T>
std::tuple<Out1<T>, Out1<T>, Out1<double>, Out1<double>, Out1<double>, SweepReturn> refine(
    const std::vector<int>& sizes, In1<T> m_w, In1<T> v_w, In1<double> v_hat_nat,
    In1<double> a_hat_nat, In1<double> b_hat_nat, double alpha, double beta,
    double informative_ratio, const std::optional<In1<int>>& group) {
    const size_t n = check_sizes(sizes);
    const SweepArgs args = sweep_args(sizes, group, informative_ratio);
    check(m_w.shape(0) == n && v_w.shape(0) == n && v_hat_nat.shape(0) == n &&
              a_hat_nat.shape(0) == n && b_hat_nat.shape(0) == n,
          "the arrays differ in length");
    Out1<T> m_new = copy_of(m_w), v_new = copy_of(v_w);
    Out1<double> v_hat = copy_of(v_hat_nat), a_hat = copy_of(a_hat_nat), b_hat = copy_of(b_hat_nat);
    SweepResult result;
    {
        nb::gil_scoped_release no_gil;
        const Factors<T> factors = {m_new.data(), v_new.data(), v_hat.data(), a_hat.data(),
                                    b_hat.data()};
        result = refine_prior(factors, alpha, beta, args);
    }
    return {
        m_new, v_new,
        v_hat, a_hat,
        b_hat, SweepReturn{result.alpha, result.beta, result.n_skipped, result.n_uninformative}};
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
                            nullptr,
                            nullptr};
    run(active->class_log_probabilities, args);
    return log_p;
}

Out1<double> class_log_probability(In2<double> m, In2<double> v, In1<int64_t> c) {
    const size_t n = m.shape(0), n_classes = m.shape(1);
    check(v.shape(0) == n && v.shape(1) == n_classes, "m and v differ in shape");
    check(c.shape(0) == n, "there must be one class per row");
    for (size_t i = 0; i < n; ++i)
        check(c.data()[i] >= 0 && c.data()[i] < static_cast<int64_t>(n_classes),
              "a class is not one of the outputs");
    Out1<double> log_p = new_array<double>(n);
    const ClassArgs args = {m.data(),
                            v.data(),
                            static_cast<int64_t>(n),
                            static_cast<int>(n_classes),
                            log_p.data(),
                            poll_every(300 * n_classes),  // in weights of a network
                            keep_going,
                            nullptr,
                            c.data()};
    run(active->class_log_probabilities, args);
    return log_p;
}

template <typename T>
void define_for(nb::module_& m) {
    m.def("adf_pass", &adf_pass<T>, "sizes"_a, "m_w"_a, "v_w"_a, "X"_a, "y"_a, "order"_a,
          "likelihood"_a, "alpha"_a, "beta"_a, "memory"_a = nb::none(), "X_var"_a = nb::none(),
          "weighting"_a = nb::none(), "tail"_a = nb::none(),
          "One ADF pass; returns (m_w, v_w, (alpha, beta, log_Z_sum, n_undone, n_guarded, "
          "n_skipped, d_tail_sum)).");
    m.def("predict_moments", &predict_moments<T>, "sizes"_a, "m_w"_a, "v_w"_a, "X"_a,
          "X_var"_a = nb::none(), "scaling"_a = nb::none(),
          "Mean and variance of the outputs per row, without noise.");
    m.def("predict_gradient", &predict_gradient<T>, "sizes"_a, "m_w"_a, "v_w"_a, "X"_a,
          "scaling"_a = nb::none(),
          "Those moments, (n,) each, and their derivatives by the entries of X, (n, D) each.");
    m.def("refine_prior", &refine<T>, "sizes"_a, "m_w"_a, "v_w"_a, "v_hat_nat"_a, "a_hat_nat"_a,
          "b_hat_nat"_a, "alpha"_a, "beta"_a, "informative_ratio"_a, "group"_a = nb::none(),
          "One sweep over the prior factors; returns (m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, "
          "(alpha, beta, n_skipped, n_uninformative)).");
}

}  // namespace
}  // namespace probprop

NB_MODULE(_kernel, m) {
    using namespace probprop;
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
    define_rows(m);
    define_for<double>(m);
    define_for<float>(m);
    define_members<double>(m, "Members64");
    define_members<float>(m, "Members32");
    m.def("class_log_probabilities", &class_log_probabilities, "m"_a, "v"_a,
          "The log of the probability of every class, (n, K), from the outputs' moments.");
    m.def("class_log_probability", &class_log_probability, "m"_a, "v"_a, "c"_a,
          "The log of the probability of one class per row, (n,), from the outputs' moments.");
    define_sampled(m);
    define_mixture(m);
    define_training(m);
    define_for_tests(m);
}

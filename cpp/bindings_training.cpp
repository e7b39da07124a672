// Whole trainings without the GIL, one or many, in parallel threads.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "bindings.hpp"
#include "train.hpp"

using namespace nb::literals;

namespace probprop {
namespace {

template <typename T>
using Out3 = nb::ndarray<nb::numpy, T, nb::shape<-1, -1, -1>, nb::c_contig>;
// The key and the position of numpy's MT19937.
using Generator = std::tuple<In1<uint32_t>, int64_t>;

// The network of the noise: its layers, means and variances of its weights, the power of its
// likelihood in every epoch, the bound on its evidence, and the tails of the noise.
template <typename T>
using NoiseNetwork = std::tuple<std::vector<int>, In1<T>, In1<T>, In1<double>,
                                std::optional<Memory<T>>, In1<double>>;

// ---- One training: its arguments, checked, with room for what it returns.

template <typename T>
class Job {
  public:
    Job(const std::vector<int>& sizes_, const In1<T>& m_w_, const In1<T>& v_w_,
        const In1<double>& v_hat_nat_, const In1<double>& a_hat_nat_, const In1<double>& b_hat_nat_,
        const In1<double>& alpha_noise_, const In1<double>& beta_noise_, double alpha_prior_,
        double beta_prior_, double informative_ratio, AnyRows X_, AnyMatrix y_,
        const std::string& likelihood, In1<bool> refine_, std::optional<Standardizer> X_scaling_,
        std::optional<Standardizer> y_scaling_, std::optional<In2<T>> X_var_,
        const std::optional<Memory<T>>& memory_, const std::optional<Generator>& generator,
        std::optional<In2<int64_t>> orders_, const std::optional<Weighting>& weighting_,
        const std::optional<NoiseNetwork<T>>& noise_network_,
        const std::optional<In1<double>>& tail_, std::optional<In1<double>> tail_rate_,
        std::optional<In2<bool>> due_, std::optional<In1<int>> group_)
        : sizes(sizes_),
          X(X_),
          rows(rows_of(X)),
          y(y_),
          refine(refine_),
          X_scaling(X_scaling_),
          y_scaling(y_scaling_),
          X_var(X_var_),
          memory(memory_),
          orders(orders_),
          weighting(weighting_),
          noise_network(noise_network_),
          tail_rate(tail_rate_),
          due(due_),
          group(group_),
          m_w(copy_of(m_w_)),
          v_w(copy_of(v_w_)),
          v_hat_nat(copy_of(v_hat_nat_)),
          a_hat_nat(copy_of(a_hat_nat_)),
          b_hat_nat(copy_of(b_hat_nat_)),
          alpha_noise(copy_of(alpha_noise_)),
          beta_noise(copy_of(beta_noise_)),
          alpha_prior(alpha_prior_),
          beta_prior(beta_prior_) {
        TrainArgs<T> args = {};
        args.pass = pass_args<T>(sizes, m_w_, v_w_, rows, X_scaling, X_var, y, y_scaling,
                                 likelihood, alpha_noise_, beta_noise_, memory, weighting);
        const size_t n_weights = m_w_.shape(0), n_epochs = refine.shape(0);
        const size_t n_noise = alpha_noise_.shape(0);
        check(v_hat_nat_.shape(0) == n_weights && a_hat_nat_.shape(0) == n_weights &&
                  b_hat_nat_.shape(0) == n_weights,
              "the prior factors do not fit sizes");
        args.pass.m_w = m_w.data();
        args.pass.v_w = v_w.data();
        args.pass.alpha = alpha_noise.data();
        args.pass.beta = beta_noise.data();
        tail = tails_of(tail_, sizes.back());
        args.pass.tail = args.tail = tail.data();
        args.n_tail = sizes.back();
        if (tail_rate) {
            check(tail_rate->shape(0) == n_epochs, "there is no rate of the tail per epoch");
            args.tail_rate = tail_rate->data();
        }
        args.pass.n_points = rows.X.n_rows;
        args.pass.poll_every = args.pass.poll_every / 10 + 1;  // looking at the clock is cheap
        args.n_weights = static_cast<int64_t>(n_weights);
        args.n_noise = static_cast<int>(n_noise);
        args.v_hat_nat = v_hat_nat.data();
        args.a_hat_nat = a_hat_nat.data();
        args.b_hat_nat = b_hat_nat.data();
        args.alpha_prior = &alpha_prior;
        args.beta_prior = &beta_prior;
        args.sweep = sweep_args(sizes, group, informative_ratio);
        if (due) {
            check(due->shape(0) == n_epochs && due->shape(1) == size_t(sizes[0]),
                  "due must have an entry per epoch and input");
            args.sweep.due = due->data();
        }
        args.n_epochs = static_cast<int64_t>(n_epochs);
        args.refine = refine.data();
        if (generator) args.random = seed(*generator);
        if (orders) args.orders = checked(*orders, n_epochs, count_rows(rows));
        if (noise_network) add_watcher(args);
        log_Z_sum = new_array<double>(n_epochs);
        counts = new_array<int64_t>(n_epochs, 4);
        noise = new_array<double>(n_epochs * 2 * n_noise);
        prior = new_array<double>(n_epochs, 2);
        tails = new_array<double>(n_epochs, tail.shape(0));
        observed = {0, log_Z_sum.data(), counts.data(), noise.data(), prior.data(), tails.data()};
        training = std::make_unique<Training<T>>(args);
    }
    Job(const Job&) = delete;

    void run(bool (*keep_going)(void*), void* context) {
        status = training->run(kernels<T>().adf_pass, keep_going, context, observed);
    }

    // The posterior, then what the epochs observed.
    nb::tuple result() const {
        const size_t n_epochs = refine.shape(0), n_noise = alpha_noise.shape(0);
        const Out3<double> per_target(noise.data(), {n_epochs, 2, n_noise}, nb::find(noise));
        return nb::make_tuple(m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, alpha_noise, beta_noise,
                              tail, alpha_prior, beta_prior, observed.n_epochs, log_Z_sum, counts,
                              per_target, prior, tails);
    }
    nb::object generator() const {
        if (!random) return nb::none();
        Out1<uint32_t> key = new_array<uint32_t>(Mt19937::size);
        for (int i = 0; i < Mt19937::size; ++i) key.data()[i] = random->key[i];
        return nb::make_tuple(key, random->position);
    }

    // Means and variances of the weights of the network of the noise, and its tails; or None.
    nb::object noise_weights() const {
        if (!noise_network) return nb::none();
        return nb::make_tuple(noise_m_w, noise_v_w, noise_tail);
    }

    Status status = Status::ok;

  private:
    // Train the network of the noise on the residuals of the passes.
    void add_watcher(TrainArgs<T>& args) {
        const auto& [layers, m, v, power, noise_memory, tails] = *noise_network;
        const size_t n = count_rows(rows), n_outputs = static_cast<size_t>(sizes.back());
        check(y.shape(1) == n_outputs && alpha_noise.shape(0) == n_outputs,
              "the likelihood has no noise that a network could learn");
        check(power.shape(0) == refine.shape(0), "the power does not have an entry per epoch");
        seen.assign(n * 3 * n_outputs, 1.0);
        noise_m_w = copy_of(m);
        noise_v_w = copy_of(v);
        noise_tail = tails_of(tails, sizes.back());
        const size_t shape[2] = {n, 3 * n_outputs};
        const AnyMatrix targets(seen.data(), 2, shape, nb::handle(), nullptr, nb::dtype<double>());
        AdfArgs<T> pass = pass_args<T>(layers, m, v, rows, X_scaling, X_var, targets, {}, "scale",
                                       no_noise(unit_alpha), no_noise(unit_beta), noise_memory, {});
        pass.m_w = noise_m_w.data();
        pass.v_w = noise_v_w.data();
        pass.alpha = &unit_alpha;
        pass.beta = &unit_beta;
        pass.tail = noise_tail.data();
        pass.poll_every = pass.poll_every / 10 + 1;
        args.pass.watched = seen.data();
        args.watcher = {pass, static_cast<int64_t>(m.shape(0)), noise_tail.data(), power.data()};
    }
    static In1<double> no_noise(const double& value) {
        const size_t shape[1] = {1};
        return In1<double>(&value, 1, shape, nb::handle());
    }
    Mt19937* seed(const Generator& generator) {
        const auto& [key, position] = generator;
        check(key.shape(0) == Mt19937::size && position >= 0 && position <= Mt19937::size,
              "the generator is no MT19937");
        random = std::make_unique<Mt19937>();
        for (int i = 0; i < Mt19937::size; ++i) random->key[i] = key.data()[i];
        random->position = position;
        return random.get();
    }
    static const int64_t* checked(const In2<int64_t>& orders, size_t n_epochs, size_t n) {
        check(orders.shape(0) == n_epochs && orders.shape(1) == n, "orders do not fit X");
        for (size_t i = 0; i < n_epochs * n; ++i)
            check(orders.data()[i] >= 0 && static_cast<size_t>(orders.data()[i]) < n,
                  "order points outside X");
        return orders.data();
    }

    // What is only read, kept alive.
    std::vector<int> sizes;
    AnyRows X;
    Rows rows;
    AnyMatrix y;
    In1<bool> refine;
    std::optional<Standardizer> X_scaling, y_scaling;
    std::optional<In2<T>> X_var;
    std::optional<Memory<T>> memory;
    std::optional<In2<int64_t>> orders;
    std::optional<Weighting> weighting;
    std::optional<NoiseNetwork<T>> noise_network;
    std::optional<In1<double>> tail_rate;
    std::optional<In2<bool>> due;
    std::optional<In1<int>> group;
    // The state, and what the epochs observed.
    Out1<T> m_w, v_w;
    Out1<double> v_hat_nat, a_hat_nat, b_hat_nat, alpha_noise, beta_noise, tail;
    double alpha_prior, beta_prior;
    Out1<T> noise_m_w, noise_v_w;
    Out1<double> noise_tail;
    double unit_alpha = 2.0, unit_beta = 1.0;  // a scale has no noise of its own
    std::vector<double> seen;                  // by the network of the noise; (n, 3, outputs)
    std::unique_ptr<Mt19937> random;
    Out1<double> log_Z_sum;
    Out2<double> prior, tails;
    Out2<int64_t> counts;
    Out1<double> noise;
    TrainResult observed = {};
    std::unique_ptr<Training<T>> training;
};

// ---- Many of them in threads.

// Ends all threads: on Ctrl-C, which only the calling thread sees, or when a training fails.
struct Watch {
    std::atomic<bool> stop{false};
    std::chrono::steady_clock::time_point looked = std::chrono::steady_clock::now();
};

constexpr auto between_looks = std::chrono::milliseconds(30);

bool go_on(void* watch) { return !static_cast<Watch*>(watch)->stop; }

bool go_on_unless_interrupted(void* context) {
    Watch& watch = *static_cast<Watch*>(context);
    const auto now = std::chrono::steady_clock::now();
    if (now - watch.looked > between_looks) {
        watch.looked = now;
        if (!keep_going(nullptr)) watch.stop = true;
    }
    return !watch.stop;
}

// Run all jobs in this thread and up to n_threads - 1 others, without the GIL.
template <typename T>
void run_all(const std::vector<Job<T>*>& jobs, int n_threads, Watch& watch) {
    std::atomic<size_t> next{0};
    const auto work = [&](bool (*poll)(void*)) {
        for (size_t i = next++; i < jobs.size() && !watch.stop; i = next++) {
            jobs[i]->run(poll, &watch);
            if (jobs[i]->status != Status::ok) watch.stop = true;
        }
    };
    std::mutex mutex;
    std::condition_variable ended;
    size_t n_ended = 0;
    std::vector<std::thread> threads;
    const size_t wanted =
        jobs.size() < static_cast<size_t>(n_threads) ? jobs.size() : static_cast<size_t>(n_threads);
    threads.reserve(wanted);
    while (threads.size() + 1 < wanted) {
        try {
            threads.emplace_back([&] {
                work(go_on);
                const std::lock_guard<std::mutex> lock(mutex);
                ++n_ended;
                ended.notify_one();
            });
        } catch (const std::system_error&) {  // as many as the machine allows
            break;
        }
    }
    work(go_on_unless_interrupted);
    {
        std::unique_lock<std::mutex> lock(mutex);
        while (n_ended < threads.size()) {
            ended.wait_for(lock, between_looks);
            lock.unlock();
            go_on_unless_interrupted(&watch);
            lock.lock();
        }
    }
    for (std::thread& thread : threads) thread.join();
}

// The exception that Ctrl-C raised, or None. Then the jobs have the epochs they had made whole.
template <typename T>
nb::object train(const std::vector<Job<T>*>& jobs, int n_threads) {
    check(n_threads >= 1, "there is a thread or more");
    Watch watch;
    {
        nb::gil_scoped_release no_gil;
        run_all(jobs, n_threads, watch);
    }
    nb::object interrupt = nb::none();
    if (PyErr_Occurred()) interrupt = nb::borrow(nb::python_error().value());
    for (const Job<T>* job : jobs)
        if (job->status != Status::interrupted) raise_unless_ok(job->status);
    return interrupt;
}

template <typename T>
void define_for(nb::module_& m, const char* name) {
    nb::class_<Job<T>>(m, name, "A training from a posterior on, over the same points.")
        .def(
            nb::init<const std::vector<int>&, const In1<T>&, const In1<T>&, const In1<double>&,
                     const In1<double>&, const In1<double>&, const In1<double>&, const In1<double>&,
                     double, double, double, AnyRows, AnyMatrix, const std::string&, In1<bool>,
                     std::optional<Standardizer>, std::optional<Standardizer>,
                     std::optional<In2<T>>, const std::optional<Memory<T>>&,
                     const std::optional<Generator>&, std::optional<In2<int64_t>>,
                     const std::optional<Weighting>&, const std::optional<NoiseNetwork<T>>&,
                     const std::optional<In1<double>>&, std::optional<In1<double>>,
                     std::optional<In2<bool>>, std::optional<In1<int>>>(),
            "sizes"_a, "m_w"_a, "v_w"_a, "v_hat_nat"_a, "a_hat_nat"_a, "b_hat_nat"_a,
            "alpha_noise"_a, "beta_noise"_a, "alpha_prior"_a, "beta_prior"_a, "informative_ratio"_a,
            "X"_a, "y"_a, "likelihood"_a, "refine"_a, "X_scaling"_a = nb::none(),
            "y_scaling"_a = nb::none(), "X_var"_a = nb::none(), "memory"_a = nb::none(),
            "generator"_a = nb::none(), "orders"_a = nb::none(), "weighting"_a = nb::none(),
            "noise_network"_a = nb::none(), "tail"_a = nb::none(), "tail_rate"_a = nb::none(),
            "due"_a = nb::none(), "group"_a = nb::none())
        .def("noise_weights", &Job<T>::noise_weights,
             "Means and variances of the weights of the network of the noise, and its tails; or "
             "None.")
        .def("result", &Job<T>::result,
             "(m_w, v_w, v_hat_nat, a_hat_nat, b_hat_nat, alpha_noise, beta_noise, tail, "
             "alpha_prior, beta_prior) and (n_epochs, log_Z_sum, counts, noise, prior, tail) of "
             "the whole epochs.")
        .def("generator", &Job<T>::generator, "The generator after them, or None.");
    m.def("train", &train<T>, "jobs"_a, "n_threads"_a = 1,
          "Make the epochs of all jobs; returns the exception of an interrupt, or None.");
}

}  // namespace

void define_training(nb::module_& m) {
    define_for<double>(m, "Job64");
    define_for<float>(m, "Job32");
}

}  // namespace probprop

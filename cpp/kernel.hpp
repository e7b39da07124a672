// What the bindings call and what each instruction set provides: plain data, no mathematics.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace probprop {

enum class Status { ok, interrupted, no_memory };

// What a target is to the outputs: a value, +1 or -1 for each of them, or the index of the largest.
enum class Likelihood { gaussian, probit, multinomial };

// How much evidence q may hold: that of `capacity` points; see memory.hpp.
template <typename T>
struct MemoryArgs {
    const T* v_hat_nat;  // precisions of the prior factors, flat as the weights; null: no bound
    double capacity;
    int64_t every;       // points between two returns of evidence
    double alpha, beta;  // of the noise precision, a priori
};

// Weights are flat: layers input to output, each (n_out, n_in + 1) row-major, bias last.
template <typename T>
struct AdfArgs {
    const int* sizes;  // units per layer, n_layers + 1 of them
    int n_layers;
    T *m_w, *v_w;     // read, and written when the pass ends well
    const T* X;       // (n, sizes[0]) row-major
    const T* X_var;   // variances of the entries of X; null: there are none
    const double* y;  // (n, sizes[n_layers]), or (n,) if multinomial
    const int64_t* order;
    int64_t n_points;
    double *alpha, *beta;  // of the noise precisions, one per output if Gaussian; read and written
    Likelihood likelihood;
    bool update_variance;  // Eq. (7) as well as Eq. (6); always, if not Gaussian
    MemoryArgs<T> memory;
    int64_t poll_every;  // points between two calls of keep_going
    bool (*keep_going)(void*);
    void* context;
};

struct AdfResult {
    double log_Z_sum;
    int64_t n_undone, n_guarded, n_skipped;
};

template <typename T>
struct PredictArgs {
    const int* sizes;
    int n_layers;
    const T *m_w, *v_w;
    const T* X;
    const T* X_var;  // null: no variances
    int64_t n_rows;
    double *m, *v;  // (n_rows, units of the output layer)
    int64_t poll_every;
    bool (*keep_going)(void*);
    void* context;
};

template <typename T>
struct GradientArgs {
    PredictArgs<T> predict;
    double *dm_dx, *dv_dx;  // (n_rows, sizes[0]) row-major
};

struct ClassArgs {
    const double *m, *v;  // of the outputs, (n_rows, n_classes)
    int64_t n_rows;
    int n_classes;
    double* log_p;  // (n_rows, n_classes)
    int64_t poll_every;
    bool (*keep_going)(void*);
    void* context;
};

// One point's log Z and its derivatives, for the tests.
struct EvidenceArgs {
    Likelihood likelihood;
    const double *m, *v;           // of the outputs, (n_outputs,)
    const double* y;               // (n_outputs,), or the index of a class
    const double* noise_variance;  // (n_outputs,), of a Gaussian
    int n_outputs;
    double *d_m, *d_v;  // (n_outputs,)
};

// One instruction set's build of the kernels.
struct Level {
    const char* name;
    Status (*adf_pass_f64)(const AdfArgs<double>&, AdfResult&);
    Status (*adf_pass_f32)(const AdfArgs<float>&, AdfResult&);
    Status (*predict_f64)(const PredictArgs<double>&);
    Status (*predict_f32)(const PredictArgs<float>&);
    Status (*gradient_f64)(const GradientArgs<double>&);
    Status (*gradient_f32)(const GradientArgs<float>&);
    Status (*class_log_probabilities)(const ClassArgs&);
    Status (*log_Z)(const EvidenceArgs&, double&);
    // Six ReLU quantities per unit, for the tests: out is (6, n).
    void (*relu_moments_f64)(const double* m_a, const double* v_a, int64_t n, double* out);
    void (*relu_moments_f32)(const float* m_a, const float* v_a, int64_t n, float* out);
};

// The levels this machine can run, fastest first; returns how many.
int available_levels(const Level** out);
// The one in use: the fastest, or the one PROBPROP_CPU_LEVEL asks for; null if that is unknown.
const Level* chosen_level();

}  // namespace probprop

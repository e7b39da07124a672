// What the bindings call and what each instruction set provides: plain data, no mathematics.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace probprop {

enum class Status { ok, interrupted, no_memory, too_large };

// Numbers where they lie: single or double precision, rows and columns any number apart.
struct Matrix {
    const void* data;
    bool single;
    int64_t n_rows;
    int n_columns;
    int64_t row_stride, column_stride;  // in numbers
};

// Piecewise-linear functions of the columns of a matrix: the inputs that a network has instead of
// the columns. The knots of column c, first_knot[c] up to first_knot[c + 1], ascend and cut its
// values into one interval more than there are knots. Its intervals are numbered from
// first_knot[c] + c on, and a value at a knot belongs to the right one. In interval i the terms
// first_term[i] up to first_term[i + 1] list the inputs that are not 0:
//     input[t] is at_origin[t] + slope[t] (x - origin[i]).
struct Basis {
    int n_columns, n_inputs;
    const int64_t* first_knot;  // (n_columns + 1,)
    const double* knots;
    const double* origin;  // of each interval
    const int64_t* first_term;
    const int32_t* input;  // no two terms of a row have the same
    const double *at_origin, *slope;
};

// Inputs that are given one by one, compressed (CSR): indices[indptr[i]] up to
// indices[indptr[i + 1]] list those of row i. They have a mean and a variance, which is
// standardized.
struct Filled {
    const int64_t* indptr;  // (n_rows + 1,); null: there are none
    const int32_t* indices;
    const double *mean, *variance;
};

// The rows that a network sees: as they lie; or compressed (CSR), where X has the values, one after
// the other, and indices[indptr[i]] up to indices[indptr[i + 1]] list the inputs of row i; or the
// columns of X by a basis. In the last two forms only inputs that are not 0 are read. A column
// that is NaN in a row has its inputs in `filled`.
struct Rows {
    Matrix X;
    const int64_t* indptr;  // (n_rows + 1,); null: not compressed
    const int32_t* indices;
    const Basis* basis;  // null: there is none
    Filled filled;
};

// The standardization of a matrix, (n_columns,) each: (x - mean)/scale. Null: used as it is.
struct Scaling {
    const double *mean, *scale;
    double largest;  // refuse what lies farther from the mean than this many scales
};  // Inputs that are listed have no mean: 0 stays 0.

// Which point comes t-th: entry t of an index of either width; or point t.
struct Order {
    const int32_t* narrow;
    const int64_t* wide;
};

// The outputs at one point, and the derivatives of its log Z by their moments; (n,) each. Where
// the noise has a tail, also its variance in log noise variance, and the derivatives by the log of
// the noise level and by the tail; otherwise these are not used.
struct Outputs {
    int n;
    const double *m, *v;
    double *d_m, *d_v;
    const double* tail;
    double *d_level, *d_tail;
};

// What the bindings need of a likelihood; likelihoods/list.hpp describes the fields.
struct LikelihoodInfo {
    const char* name;
    int (*n_targets)(int n_outputs);
    int (*n_noise)(int n_outputs);
    bool weights_divide_noise;
    const char* (*objection)(const Matrix& y, int n_outputs);
};

// The evidence cap: q has the evidence of at most `capacity` points; see tempering.hpp.
template <typename T>
struct MemoryArgs {
    const T* v_hat_nat;  // precisions of the prior factors, flat as the weights; null: no bound
    double capacity;
    int64_t every;       // points between two tempering steps
    double alpha, beta;  // of the noise precision, a priori
};

// Weights are flat: layers input to output, each (n_out, n_in + 1) row-major, bias last.
template <typename T>
struct AdfArgs {
    const int* sizes;  // units per layer, n_layers + 1 of them
    int n_layers;
    T *m_w, *v_w;  // read, and written when the pass ends well
    Rows X;        // (n, sizes[0])
    Scaling X_scaling;
    const T* X_var;  // variances of the standardized entries, row-major; null: there are none, but
                     // for inputs that are filled
    Matrix y;        // (n, targets of the likelihood)
    Scaling y_scaling;
    const double* weights;  // (n,), above 0; null: each is 1
    const double* y_var;    // known variances of the standardized targets, (n, units of the
                            // output layer) row-major; null: there are none
    double power;           // of the likelihoods whose weights do not divide the noise
    Order order;
    int64_t n_points;
    double *alpha, *beta;  // of the likelihood's noise precisions; read and written
    const double* tail;    // of each output's noise, (units of the output layer,); null: all 0
    double* d_tail_sum;    // of log Z by them, added to; null: not wanted
    int likelihood;        // index in Level::likelihoods
    MemoryArgs<T> memory;
    double* watched;     // (n, 3, outputs), written: see watch.hpp; null: not wanted
    int64_t poll_every;  // points before each call of keep_going
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
    Rows X;
    Scaling X_scaling;
    const T* X_var;  // of the standardized entries, row-major; null: no variances
    double *m, *v;   // (n_rows, units of the output layer)
    int64_t poll_every;
    bool (*keep_going)(void*);
    void* context;
};

template <typename T>
struct GradientArgs {
    PredictArgs<T> predict;
    double *dm_dx, *dv_dx;  // (n_rows, sizes[0]) row-major; with a basis (n_rows, n_columns)
};

// A network with known weights, and rows in their own units.
struct SampledArgs {
    const int* sizes;  // units per layer, n_layers + 1 of them, the last one 1
    int n_layers;
    const double* const* w;          // of each layer, (n_out, n_in + 1) row-major, bias last
    Rows X;                          // (n_rows, sizes[0])
    const double *x_mean, *x_scale;  // (sizes[0],)
    double y_mean, y_scale;
    double* f;      // (n_rows,)
    double* df_dx;  // (n_rows, sizes[0]) row-major, or by the columns of a basis; null: not wanted
};

struct ClassArgs {
    const double *m, *v;  // of the outputs, (n_rows, n_classes)
    int64_t n_rows;
    int n_classes;
    double* log_p;  // (n_rows, n_classes), or (n_rows,) of the classes `only`
    int64_t poll_every;
    bool (*keep_going)(void*);
    void* context;
    const int64_t* only;  // (n_rows,), the class that is wanted of every row; null: all classes
};

// One point's log Z and its derivatives, for the tests.
struct EvidenceArgs {
    int likelihood;  // index in Level::likelihoods
    Outputs outputs;
    const double* y;             // (targets of the likelihood,)
    const double *alpha, *beta;  // of its noise precisions
};

// Residuals with a log-normal noise variance, and where log Z and its derivatives go.
struct ScaleArgs {
    const double *d, *v, *mu, *var;  // (n,) each
    int64_t n;
    double* out;  // (5, n): log Z, then by mu, var, m and v
};

// The noise of a mixture's members: Gaussian; with a variance that is log-normal, `shape` being the
// variance of its logarithm; or Student-t, `shape` being alpha of the Gamma of its precision.
enum class NoiseRule { gaussian, log_normal, student_t };

// One number per member, row and target of a mixture, any number apart.
struct Stack {
    const double* data;
    int64_t per_member, per_row, per_target;
};

enum class MixtureQuery { logpdf, cdf, quantile, crps };

struct MixtureArgs {
    MixtureQuery query;
    NoiseRule noise;
    int64_t n_members, n_rows, n_targets;
    const double* weights;  // (n_members,), 0 or more
    Stack mean, epistemic_std, aleatoric_std, shape;
    int64_t n_at;
    const double* at;         // targets, (n_at, n_rows, n_targets); quantile: tails, (n_at,), at
                              // most 1/2
    const double* normal_at;  // quantile: standard normal quantiles, (n_at,); lower tails below 0
    const double* power;      // crps: of the Box-Cox transformation of the targets,
                              // the score being in its unit; null: there is none
    double* out;              // (n_at, n_rows, n_targets)
    int64_t poll_every;       // rows
    bool (*keep_going)(void*);
    void* context;
};

// Components of targets behind a Box-Cox transformation, (n,) each, as z has them.
struct PowerArgs {
    const double *m, *epistemic_std, *aleatoric_std;
    int64_t n;
    double power;
    double* out;  // in units of the transformation, (3, n): mean and standard deviations of model
                  // and noise
    int64_t poll_every;
    bool (*keep_going)(void*);
    void* context;
};

// The kernels for weights of one type.
template <typename T>
struct Kernels {
    Status (*adf_pass)(const AdfArgs<T>&, AdfResult&);
    Status (*predict)(const PredictArgs<T>*, int n);  // of n networks that see the same rows
    Status (*gradient)(const GradientArgs<T>&);
    // Six ReLU quantities per unit, for the tests: out is (6, n).
    void (*relu_moments)(const T* m_a, const T* v_a, int64_t n, T* out);
};

// One instruction set's build of the kernels.
struct Level {
    const char* name;
    Kernels<double> f64;
    Kernels<float> f32;
    const LikelihoodInfo* likelihoods;
    int n_likelihoods;
    Status (*log_Z)(const EvidenceArgs&, double&);
    Status (*class_log_probabilities)(const ClassArgs&);
    Status (*sampled)(const SampledArgs&);
    void (*scale_mixtures)(const ScaleArgs&);
    Status (*mixture)(const MixtureArgs&);
    Status (*power_moments)(const PowerArgs&);
};

// The levels this machine can run, fastest first; returns how many.
int available_levels(const Level** out);
// The one in use: the fastest, or the one PROBPROP_CPU_LEVEL asks for; null if that is unknown.
const Level* chosen_level();

}  // namespace probprop

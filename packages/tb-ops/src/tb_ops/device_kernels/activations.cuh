// Functors of activations with numbers, and of their gradients: input 0 is the gradient, input 1 what the schema names
// second.
#pragma once
#include "binary.cuh"

namespace tb::kernels {

// ---- exponential linear units: scalars are alpha, the scale, and the scale of the input ---------------------------

struct Elu : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    const T alpha = number_of<T>(s[0]), scale = number_of<T>(s[1]), input_scale = number_of<T>(s[2]);
    return x[0] < T(0) ? number::expm1(x[0] * input_scale) * (alpha * scale) : x[0] * scale;
  }
};
// `of_result`: input 1 is the result of the forward pass instead of its input.
template <bool of_result> struct EluBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    const T alpha = number_of<T>(s[0]), scale = number_of<T>(s[1]), input_scale = number_of<T>(s[2]);
    if (!(x[1] <= T(0))) return x[0] * scale; // for a NaN too, as on CUDA
    if constexpr (of_result)
      return x[0] * input_scale * (x[1] + alpha * scale);
    else
      return x[0] * input_scale * (alpha * scale) * number::exp(x[1] * input_scale);
  }
};

// ---- linear in parts ----------------------------------------------------------------------------------------------

struct LeakyRelu : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return x[0] > T(0) ? x[0] : x[0] * number_of<T>(s[0]);
  }
};
struct LeakyReluBackward : Inputs<2> { // PyTorch gives the gradient as input 1 here
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return x[0] > T(0) ? x[1] : x[1] * number_of<T>(s[0]);
  }
};
struct HardTanhBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return x[1] <= number_of<T>(s[0]) || x[1] >= number_of<T>(s[1]) ? T(0) : x[0];
  }
};
template <class T> __device__ inline T six_at_most(T x) { return lowered_to(T(6), raised_to(T(0), x)); }
struct HardSigmoid : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) { return six_at_most(x[0] + T(3)) / T(6); }
};
struct HardSigmoidBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return x[1] > T(-3) && x[1] < T(3) ? x[0] * (T(1) / T(6)) : T(0);
  }
};
struct HardSwish : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return x[0] * six_at_most(x[0] + T(3)) / T(6);
  }
};
struct HardSwishBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    if (x[1] <= T(-3)) return T(0);
    return x[1] < T(3) ? x[0] * (x[1] / T(3) + T(0.5)) : x[0];
  }
};

// ---- logarithms of exponentials -----------------------------------------------------------------------------------

struct Softplus : Inputs<1> { // scalars are beta and the threshold, above which the function is the identity
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    const T beta = number_of<T>(s[0]);
    return x[0] * beta > number_of<T>(s[1]) ? x[0] : number::log1p(number::exp(x[0] * beta)) / beta;
  }
};
struct SoftplusBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    const T scaled = x[1] * number_of<T>(s[0]);
    if (scaled > number_of<T>(s[1])) return x[0];
    const T power = number::exp(scaled);
    return x[0] * power / (power + T(1));
  }
};
struct Mish : Inputs<1> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    return x[0] * number::tanh(number::log1p(number::exp(x[0])));
  }
};
struct MishBackward : Inputs<2> {
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T sigmoid = T(1) / (T(1) + number::exp(-x[1])), inner = number::tanh(number::log1p(number::exp(x[1])));
    return x[0] * (inner + x[1] * sigmoid * (T(1) - inner * inner));
  }
};
struct LogSigmoidBuffer : Inputs<1> { // what the gradient needs
  template <class T> __device__ static T call(const T *x, const Scalar *) { return number::exp(-number::fabs(x[0])); }
};
struct LogSigmoid : Inputs<1> { // not of the buffer, which is rounded to 16 bits
  template <class T> __device__ static T call(const T *x, const Scalar *s) {
    return (x[0] < T(0) ? x[0] : T(0)) - number::log1p(LogSigmoidBuffer::call(x, s));
  }
};
struct LogSigmoidBackward : Inputs<3> { // input 2 is exp(-|x|)
  template <class T> __device__ static T call(const T *x, const Scalar *) {
    const T share = x[2] / (T(1) + x[2]);
    return x[0] * (x[1] < T(0) ? T(1) - share : share);
  }
};

} // namespace tb::kernels

// One step of an optimizer for several parameters. The blocks of each row of the grid compute one parameter.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

// Whether the gradient scaler found an infinity, so that the step changes nothing.
__device__ inline bool skipped(const OptimizerArguments &a) { return a.found_inf && *a.found_inf == 1.0f; }

template <class Stored>
__device__ inline Math<Stored> scaled_gradient(const OptimizerArguments &a, int tensor, Long i) {
  Math<Stored> grad = at<Stored>(a.gradients[tensor], i);
  if (a.grad_scale) {
    grad /= static_cast<Math<Stored>>(*a.grad_scale);
    put<Stored>(a.gradients[tensor], i, grad);
  }
  return a.flags & maximize ? -grad : grad;
}

// Adam, or AdamW if flags has `decoupled`. The moments have the parameter's type.
template <class Stored> __device__ inline void adam(const OptimizerArguments &a) {
  using Number = Math<Stored>;
  if (skipped(a)) return;
  const int tensor = static_cast<int>(blockIdx.y);
  const FloatSum step = *a.steps[tensor];
  const FloatSum correction_1 = 1 - number::pow(number_of<FloatSum>(a.beta1), step);
  const FloatSum correction_2 = 1 - number::pow(number_of<FloatSum>(a.beta2), step);
  const Number size = static_cast<Number>(number_of<FloatSum>(a.rate) / correction_1);
  const Number root = static_cast<Number>(number::sqrt(correction_2));
  const Number beta1 = number_of<Number>(a.beta1), beta2 = number_of<Number>(a.beta2);
  const Number decay = number_of<Number>(a.decay), rate = number_of<Number>(a.rate);
  for (Long i = first_element(); i < a.counts[tensor]; i += all_threads()) {
    Number parameter = at<Stored>(a.parameters[tensor], i), grad = scaled_gradient<Stored>(a, tensor, i);
    if (number_of<bool>(a.decay)) {
      if (a.flags & decoupled)
        parameter -= rate * decay * parameter;
      else
        grad += decay * parameter;
    }
    const Number first = at<Stored>(a.first[tensor], i), second = at<Stored>(a.second[tensor], i);
    const Number average = first + (Number(1) - beta1) * (grad - first);
    Number squares = beta2 * second + (Number(1) - beta2) * grad * grad;
    put<Stored>(a.first[tensor], i, average);
    put<Stored>(a.second[tensor], i, squares);
    if (a.maxima[tensor]) {
      const Number highest = at<Stored>(a.maxima[tensor], i);
      squares = highest > squares ? highest : squares;
      put<Stored>(a.maxima[tensor], i, squares);
    }
    put<Stored>(a.parameters[tensor], i,
                parameter - size * average / (number::sqrt(squares) / root + number_of<Number>(a.epsilon)));
  }
}

// SGD. beta1 is the momentum and beta2 the dampening.
template <class Stored> __device__ inline void sgd(const OptimizerArguments &a) {
  using Number = Math<Stored>;
  if (skipped(a)) return;
  const int tensor = static_cast<int>(blockIdx.y);
  const Number momentum = number_of<Number>(a.beta1), dampening = number_of<Number>(a.beta2);
  for (Long i = first_element(); i < a.counts[tensor]; i += all_threads()) {
    const Number parameter = at<Stored>(a.parameters[tensor], i);
    Number grad = scaled_gradient<Stored>(a, tensor, i) + number_of<Number>(a.decay) * parameter;
    if (number_of<bool>(a.beta1)) {
      const Number buffer =
          a.flags & first_step ? grad : momentum * at<Stored>(a.first[tensor], i) + (Number(1) - dampening) * grad;
      put<Stored>(a.first[tensor], i, buffer);
      grad = a.flags & nesterov ? grad + momentum * buffer : buffer;
    }
    put<Stored>(a.parameters[tensor], i, parameter - number_of<Number>(a.rate) * grad);
  }
}

} // namespace tb::kernels

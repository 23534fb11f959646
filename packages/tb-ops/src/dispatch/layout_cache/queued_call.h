// Carries a boxed operator call to the worker, where the CPU's kernel runs.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include "dispatch/layout_cache/result_layout.h"
#include "launch/launch.h"
#include "random/philox_state.h"

namespace tb::ops {

class QueuedCall {
public:
  // `results` are the new tensors that the call fills, in order.
  QueuedCall(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments,
             const std::vector<at::Tensor> &results);
  void operator()();

private:
  struct Argument {
    enum class Kind { plain, tensor, tensors, optional_tensors, generator };
    Kind kind = Kind::plain;
    c10::IValue value;           // plain
    std::vector<bool> presences; // of optional tensors
    size_t count = 0;            // tensors taken from tensors_
    PhiloxState philox{};        // of a generator
  };
  Argument captured(const c10::IValue &value);
  c10::IValue restored(Argument &argument, size_t &next);
  void check_layout(const at::Tensor &from, const at::Tensor &to) const;

  c10::OperatorHandle op_;
  const bool gradients_ = at::GradMode::is_enabled(); // the caller's setting, which kernels may read
  std::vector<Argument> arguments_;
  TensorDescriptors tensors_, results_;
};

} // namespace tb::ops

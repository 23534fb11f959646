// Converts the arguments and results of operators that run eagerly.
#include "lazy/fallback.h"

#include <ATen/ops/_copy_from_and_resize.h>
#include <torch/csrc/lazy/core/metrics.h>

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device_type.h"
#include "lazy/trace.h"

namespace tb::compile::lazy {
namespace {

using c10::IValue;

void count(const std::string &name) {
  static std::mutex mutex;
  static std::unordered_map<std::string, torch::lazy::Counter *> counters;
  const std::lock_guard<std::mutex> lock(mutex);
  torch::lazy::Counter *&counter = counters[name];
  if (!counter) counter = new torch::lazy::Counter(c10::DeviceTypeName(device_type, true) + "::" + name);
  counter->AddValue(1);
}

bool is_lazy(const at::Tensor &tensor) { return tensor.defined() && tensor.device().type() == c10::DeviceType::Lazy; }

c10::Device eager_device(c10::Device lazy) {
  return {device_type, lazy.has_index() ? lazy.index() : static_cast<c10::DeviceIndex>(0)};
}

// A lazy argument, the tensor on the device, and whether the operator writes to it.
struct Converted {
  at::Tensor lazy, eager;
  bool written;
};

class EagerCall {
public:
  EagerCall(const c10::OperatorHandle &op, torch::jit::Stack *stack) : schema_(op.schema()), stack_(stack) {
    for (const c10::Argument &result : schema_.returns())
      TORCH_CHECK_NOT_IMPLEMENTED(
          !result.alias_info() || result.alias_info()->isWrite(), c10::toString(op.operator_name()),
          " of a lazy tensor makes a view, and reached the backend without functionalization: a "
          "copy in its place would lose what is written to the view");
  }

  void convert_arguments() {
    const size_t begin = stack_->size() - schema_.arguments().size();
    for (size_t i = 0; i < schema_.arguments().size(); i++) {
      IValue &value = (*stack_)[begin + i];
      const c10::AliasInfo *alias = schema_.arguments()[i].alias_info();
      const bool written = alias && alias->isWrite();
      if (value.isTensor()) {
        value = to_eager(value.toTensor(), written);
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(to_eager(tensor, written));
        value = list;
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
          list.push_back(tensor ? std::optional(to_eager(*tensor, written)) : std::nullopt);
        value = list;
      } else if (value.isDevice() && value.toDevice().type() == c10::DeviceType::Lazy) {
        device_ = value.toDevice();
        value = eager_device(*device_);
      }
    }
  }

  void convert_results() {
    for (const Converted &one : converted_)
      if (one.written) at::_copy_from_and_resize(one.eager, one.lazy);
    const size_t begin = stack_->size() - schema_.returns().size();
    for (size_t i = begin; i < stack_->size(); i++) {
      IValue &value = (*stack_)[i];
      if (value.isTensor()) {
        value = to_lazy(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(to_lazy(tensor));
        value = list;
      }
    }
  }

private:
  at::Tensor to_eager(const at::Tensor &tensor, bool written) {
    if (!is_lazy(tensor)) return tensor;
    if (!device_) device_ = tensor.device();
    const at::Tensor eager = tensor.to(eager_device(tensor.device()));
    converted_.push_back({tensor, eager, written});
    return eager;
  }

  at::Tensor to_lazy(const at::Tensor &tensor) const {
    if (!tensor.defined() || !device_) return tensor;
    for (const Converted &one : converted_)
      if (one.written && one.eager.is_same(tensor)) return one.lazy;
    return tensor.to(*device_);
  }

  const c10::FunctionSchema &schema_;
  torch::jit::Stack *const stack_;
  std::optional<c10::Device> device_;
  std::vector<Converted> converted_;
};

} // namespace

void run_eagerly(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  count(c10::toString(op.operator_name()));
  EagerCall call(op, stack);
  call.convert_arguments();
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
  call.convert_results();
}

void trace_or_run(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  if (!trace(op, stack)) run_eagerly(op, stack);
}

} // namespace tb::compile::lazy

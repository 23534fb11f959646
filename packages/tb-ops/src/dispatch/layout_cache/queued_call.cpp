// Captures the arguments of a boxed call, and makes it on the worker.
#include "dispatch/layout_cache/queued_call.h"

#include <ATen/core/stack.h>

#include "intraop/thread_policy.h"
#include "random/cpu_generator.h"
#include "runtime/format.h"
#include "tensor/output_donation.h"

namespace tb::ops {

QueuedCall::QueuedCall(const c10::OperatorHandle &op, c10::ArrayRef<c10::IValue> arguments,
                       const std::vector<at::Tensor> &results)
    : op_(op), results_(capture_list(results)) {
  arguments_.reserve(arguments.size());
  for (const c10::IValue &argument : arguments) arguments_.push_back(captured(argument));
}

QueuedCall::Argument QueuedCall::captured(const c10::IValue &value) {
  Argument out;
  if (value.isTensor()) {
    out.kind = Argument::Kind::tensor;
    tensors_.emplace_back(value.toTensor());
  } else if (value.isTensorList()) {
    out.kind = Argument::Kind::tensors;
    for (const c10::IValue &item : value.toListRef()) tensors_.emplace_back(item.toTensor());
    out.count = value.toListRef().size();
  } else if (value.isOptionalTensorList()) {
    out.kind = Argument::Kind::optional_tensors;
    for (const c10::IValue &item : value.toListRef()) {
      out.presences.push_back(!item.isNone());
      if (!item.isNone()) tensors_.emplace_back(item.toTensor());
    }
  } else if (value.isDevice() && value.toDevice().type() == device_type) {
    out.value = c10::Device(c10::kCPU);
  } else if (value.isGenerator() && value.toGenerator().device().type() == device_type) {
    out.kind = Argument::Kind::generator;
    out.philox = reserve_cpu_generator(value.toGenerator(), value.toGenerator().device().index());
  } else {
    out.value = value;
  }
  return out;
}

c10::IValue QueuedCall::restored(Argument &argument, size_t &next) {
  switch (argument.kind) {
  case Argument::Kind::plain:
    return argument.value;
  case Argument::Kind::generator:
    return cpu_generator(argument.philox);
  case Argument::Kind::tensor:
    return ops::materialize(tensors_[next++]);
  case Argument::Kind::tensors: {
    c10::List<at::Tensor> list;
    for (size_t i = 0; i < argument.count; i++) list.push_back(ops::materialize(tensors_[next++]));
    return list;
  }
  case Argument::Kind::optional_tensors: {
    c10::List<std::optional<at::Tensor>> list;
    for (bool present : argument.presences)
      list.push_back(present ? std::optional<at::Tensor>(ops::materialize(tensors_[next++])) : std::nullopt);
    return list;
  }
  }
  return {};
}

// Throws if a result has other sizes or another dtype than the cached layout, since the operator's layout then depends
// on data.
void QueuedCall::check_layout(const at::Tensor &from, const at::Tensor &to) const {
  TORCH_CHECK(from.defined() && from.sizes() == to.sizes() && from.scalar_type() == to.scalar_type(), name_of(op_),
              " gave ", from.defined() ? describe(from) : "nothing",
              " where an earlier call with arguments of the same shapes gave ", describe(to),
              ": its shape depends on data, which tb did not expect. Please report it; "
              "torch.tb.force_fallback(\"",
              name_of(op_), "\") avoids it");
}

void QueuedCall::operator()() {
  intraop.distinguish(&op_.operator_name());
  const at::AutoGradMode mode(gradients_);
  torch::jit::Stack stack;
  stack.reserve(arguments_.size());
  size_t next = 0;
  for (Argument &argument : arguments_) stack.push_back(restored(argument, next));
  const std::vector<at::Tensor> given = tensors_of(stack);
  const std::vector<at::Tensor> wanted = materialize(results_);
  OutputDonation donation(wanted);
  op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  std::vector<at::Tensor> results;
  for (const at::Tensor &result : tensors_of(stack)) {
    const auto same = [&](const at::Tensor &argument) { return argument.is_same(result); };
    if (!result.defined() || std::any_of(given.begin(), given.end(), same)) continue;
    TORCH_INTERNAL_ASSERT(results.size() < wanted.size());
    check_layout(result, wanted[results.size()]);
    results.push_back(result);
  }
  donation.collect(results);
}

} // namespace tb::ops

// Carries the operands of a TensorIterator to the worker.
#include "backends/host/iterator_stub.h"

#include <ATen/ops/_to_copy_ops.h>
#include <ATen/ops/copy_ops.h>

namespace tb::ops::host {

IteratorArgument::IteratorArgument(const at::TensorIteratorBase &iterator, Types types)
    : outputs_(iterator.noutputs()) {
  operands_.reserve(static_cast<size_t>(iterator.ntensors()));
  for (int i = 0; i < iterator.ntensors(); i++) {
    const c10::ScalarType given = iterator.tensor(i).scalar_type();
    const bool convert =
        types == Types::promote_all || (types == Types::compare && (i >= outputs_ || given != c10::kBool));
    operands_.push_back({TensorDescriptor(iterator.tensor(i)), convert ? iterator.common_dtype() : given, {}});
  }
}

at::TensorIterator IteratorArgument::restore() {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false);
  for (size_t i = 0; i < operands_.size(); i++) {
    Operand &operand = operands_[i];
    const at::Tensor *tensor = &operand.tensor.as_cpu_tensor();
    if (tensor->defined() && tensor->scalar_type() != operand.wanted) {
      operand.converted = at::_ops::_to_copy::call(*tensor, operand.wanted, std::nullopt, std::nullopt, std::nullopt,
                                                   false, std::nullopt);
      tensor = &operand.converted;
    }
    if (static_cast<int>(i) < outputs_)
      config.add_output(*tensor);
    else
      config.add_const_input(*tensor);
  }
  return config.build();
}

void IteratorArgument::write_back() {
  for (int i = 0; i < outputs_; i++) {
    Operand &operand = operands_[static_cast<size_t>(i)];
    if (operand.converted.defined()) at::_ops::copy_::call(ops::materialize(operand.tensor), operand.converted, false);
  }
}

} // namespace tb::ops::host

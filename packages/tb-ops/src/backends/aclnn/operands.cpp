// Casts and copies operands, and computes the shapes of results, for calls of the library.
#include "backends/aclnn/operands.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>

#include <numeric>

namespace tb::ops::aclnn {
namespace {
constexpr int64_t most_dims = 8;
} // namespace

bool fits(std::initializer_list<const Tensor *> tensors) {
  for (const Tensor *tensor : tensors) {
    if (!tensor->defined() || is_number(*tensor)) continue;
    if (tensor->dim() > most_dims || data_type(tensor->scalar_type()) == DataType{-1} || tensor->is_neg() ||
        tensor->is_conj() || tensor->device().type() != device_type)
      return false;
  }
  return true;
}

Tensor operand(const Tensor &tensor, c10::ScalarType type, c10::DeviceIndex device) {
  if (!tensor.defined() || (tensor.scalar_type() == type && !tensor.is_cpu())) return tensor;
  if (!is_number(tensor)) return cast(tensor, type);
  const Function &fill = function<"InplaceFillScalar">();
  Tensor out = empty({}, {}, type, device);
  if (fill.found())
    run("aten::fill_.Scalar", fill, device, InPlace{out}, tensor.item());
  else
    out.copy_(tensor);
  return out;
}

Tensor cast(const Tensor &tensor, c10::ScalarType type) {
  const Function &casts = aclnn::function<"Cast">();
  Tensor out = empty(tensor.sizes(), {}, type, device_number(tensor));
  if (!casts.found() || out.numel() == 0)
    out.copy_(tensor);
  else
    run("aten::_to_copy", casts, device_number(tensor), Input{tensor}, data_type(type), Output{out});
  return out;
}

void copy_elements(const Tensor &from, const Tensor &to) {
  Tensor written = to;
  written.copy_(from);
}

c10::ScalarType promoted(std::initializer_list<const Tensor *> tensors) {
  at::native::ResultTypeState state = {};
  for (const Tensor *tensor : tensors) state = at::native::update_result_type_state(*tensor, state);
  return at::native::result_type(state);
}

at::DimVector broadcast(std::initializer_list<const Tensor *> tensors) {
  at::DimVector out;
  for (const Tensor *tensor : tensors) out = at::infer_size_dimvector(out, tensor->sizes());
  return out;
}

at::DimVector leading(const Tensor &input, c10::IntArrayRef normalized) {
  at::DimVector out(input.sizes().begin(), input.sizes().end());
  std::fill(out.end() - static_cast<std::ptrdiff_t>(std::min(normalized.size(), out.size())), out.end(), 1);
  return out;
}

bool normalizes(const Tensor &input, c10::IntArrayRef shape) {
  return !shape.empty() && shape.size() <= input.sizes().size() && input.numel() > 0 &&
         input.sizes().slice(input.sizes().size() - shape.size()) == shape;
}

Tensor weights(const std::optional<Tensor> &given, const Tensor &input) {
  if (given && given->defined()) return *given;
  Tensor out = empty({input.size(-1)}, {}, input.scalar_type(), device_number(input));
  return out.fill_(1);
}

at::DimVector replaced(const Tensor &tensor, int64_t dim, int64_t size) {
  at::DimVector out(tensor.sizes().begin(), tensor.sizes().end());
  const int64_t along = at::maybe_wrap_dim(dim, tensor.dim());
  if (!out.empty()) out[static_cast<size_t>(along)] = size;
  return out;
}

at::DimVector joined(c10::IntArrayRef sizes, int64_t last) {
  at::DimVector out(sizes.begin(), sizes.end());
  out.push_back(last);
  return out;
}

at::DimVector dims(const Tensor &self, at::OptionalIntArrayRef given) {
  if (!given || given->empty() || self.dim() == 0) return all_dims(self);
  at::DimVector out;
  for (const int64_t dim : *given) out.push_back(at::maybe_wrap_dim(dim, self.dim()));
  return out;
}

at::DimVector all_dims(const Tensor &self) {
  at::DimVector out(static_cast<size_t>(self.dim()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

void prepare(const Tensor &out, const char *operation, c10::IntArrayRef sizes, c10::ScalarType type) {
  TORCH_CHECK(c10::canCast(type, out.scalar_type()), operation, ": the result type ", type,
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, sizes);
}

void Registrar::absent(const char *name, const Function &function) {
  missing_.push_back(c10::str("aten::", name, ": aclnn", function.name));
}

} // namespace tb::ops::aclnn

// Makes and checks the outputs of structured operators.
#include "structured/structured.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_ops.h>

#include <algorithm>

#include "runtime/same_device.h"

namespace tb::ops {

at::Tensor create_output(c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::TensorOptions &options) {
  const c10::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  const c10::Device device = options.device();
  const c10::DeviceIndex index =
      device.has_index() ? device.index() : static_cast<c10::DeviceIndex>(runtime.device.current_device());
  if (!strides.empty() || !options.memory_format_opt()) return empty(sizes, strides, type, index);
  DeviceScope scope(index);
  return at::Tensor(at::detail::empty_generic(sizes, runtime.allocator, key_set, type, options.memory_format_opt()));
}

void resize_output(const at::Tensor &out, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   const c10::TensorOptions &options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty()) {
    TORCH_INTERNAL_ASSERT(!options.memory_format_opt().has_value());
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

void check_in_place(const at::Tensor &self, c10::IntArrayRef sizes, const c10::TensorOptions &options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ",
              sizes, " should match");
}

bool has_masks(const Indices &indices) {
  return std::any_of(indices.begin(), indices.end(), [](const std::optional<at::Tensor> &index) {
    return index && index->defined() && (index->scalar_type() == c10::kBool || index->scalar_type() == c10::kByte);
  });
}

Indices without_masks(const at::Tensor &self, const Indices &indices) {
  Indices positions;
  for (at::Tensor &index : at::native::expandTensors(self, at::IOptTensorListRef(indices)))
    positions.push_back(index.defined() ? std::optional(std::move(index)) : std::nullopt);
  return positions;
}

at::Tensor concatenation(const at::ITensorListRef &tensors, int64_t dim) {
  if (!tensors.isUnboxed() || tensors.size() == 0) return {};
  const at::TensorList list = tensors.toUnboxed();
  const at::Tensor &first = list[0];
  const c10::Device device = first.device();
  if (!plain(first) || device.type() != device_type) return {};
  const c10::IntArrayRef shape = first.sizes();
  if (dim < 0) dim += first.dim();
  if (dim < 0 || dim >= first.dim()) return {};
  const auto along = static_cast<size_t>(dim);
  const c10::DispatchKeySet keys = first.key_set();
  const caffe2::TypeMeta type = first.dtype();
  int64_t length = 0;
  for (const at::Tensor &tensor : list) {
    const c10::IntArrayRef own = tensor.sizes();
    // A contiguous tensor may also be channels-last. Then PyTorch's memory format depends on the order of the tensors.
    if (tensor.key_set() != keys || tensor.device() != device || tensor.dtype() != type || own.size() != shape.size() ||
        !tensor.is_contiguous() || (own.size() > 3 && tensor.suggest_memory_format() != c10::MemoryFormat::Contiguous))
      return {};
    for (size_t i = 0; i < own.size(); i++)
      if (own[i] != shape[i] && i != along) return {};
    length += own[along];
  }
  c10::DimVector sizes(shape.begin(), shape.end());
  sizes[along] = length;
  return empty(sizes, {}, c10::typeMetaToScalarType(type), device.index());
}

static void check_device(const char *operation, const at::Tensor &tensor, c10::Device first) {
  if (tensor.device() != first) [[unlikely]]
    refuse_devices(operation, first, tensor.device());
}

c10::DeviceIndex common_device(const char *operation, std::initializer_list<const at::Tensor *> tensors) {
  const at::Tensor *first = nullptr;
  for (const at::Tensor *tensor : tensors) {
    if (!tensor->defined()) continue;
    if (!first) first = tensor;
    check_device(operation, *tensor, first->device());
  }
  TORCH_INTERNAL_ASSERT(first && first->device().type() == device_type, operation, " got no tensor of this device");
  return first->device().index();
}

c10::DeviceIndex common_device(const char *operation, const at::ITensorListRef &tensors, const at::Tensor &out) {
  const c10::Device device = out.device();
  const auto check = [&](const auto &list) {
    for (const at::Tensor &tensor : list) check_device(operation, tensor, device);
  };
  tensors.isUnboxed() ? check(tensors.toUnboxed()) : check(tensors);
  return device.index();
}

} // namespace tb::ops

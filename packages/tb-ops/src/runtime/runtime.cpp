// The tables' one instance, opening the driver, and the translation of failures.
#include "runtime/runtime.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

namespace tb::ops {

Runtime runtime;

void fail(tb_status status, const char *function, c10::DeviceIndex device, Failed what) {
  char text[2048] = "";
  runtime.device.describe_error(status, function, device, text, sizeof text);
  throw_failure(status, function, text, what);
}

tb_device_info device_info(c10::DeviceIndex device) {
  tb_device_info info{};
  info.struct_size = sizeof info;
  check(runtime.device.device_info(device, &info), "device_get_info", device);
  return info;
}

tb_driver_info driver_info() {
  tb_driver_info info{};
  info.struct_size = sizeof info;
  check(runtime.driver->get_info(runtime.self, &info), "get_info", -1);
  return info;
}

void open() {
  if (runtime.driver) return;
  const tb_driver_api *driver = nullptr;
  tb_driver *self = nullptr;
  check(runtime.device.driver(&driver, &self), "open", -1);
  int32_t count = 0;
  check(runtime.device.device_count(&count), "device_count", -1);
  TORCH_CHECK(count > 0, "The tb driver is loaded but sees no device. `tb-device doctor` lists what was tried.");
  runtime.host_accessible = true;
  for (int32_t device = 0; device < count; device++)
    runtime.host_accessible &= (device_info(c10::DeviceIndex(device)).flags & TB_DEVICE_HOST_ACCESSIBLE) != 0;
  runtime.closures = runtime.host_accessible && (driver->groups & TB_GROUP_CLOSURE) != 0;
  runtime.allocator = c10::GetAllocator(device_type);
  runtime.self = self;
  runtime.driver = driver;
}

namespace {
// What at::detail::empty_generic does once it has checked the sizes and worked out the number of bytes.
at::Tensor new_contiguous(c10::IntArrayRef sizes, caffe2::TypeMeta type, size_t bytes, c10::DeviceIndex device) {
  DeviceScope scope(device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       runtime.allocator->allocate(bytes), runtime.allocator, true);
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), key_set, type);
  out.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return out;
}

// Whether a contiguous tensor has so many bytes; false: too many, or a size below zero.
bool count_bytes(c10::IntArrayRef sizes, size_t item, size_t *bytes) {
  *bytes = item;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(*bytes, static_cast<size_t>(size), bytes)) return false;
  return *bytes <= static_cast<size_t>(INT64_MAX);
}

// Whether strides are exactly those that a new tensor gets without any.
bool contiguous(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  if (strides.size() != sizes.size()) return strides.empty();
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != expected || __builtin_mul_overflow(expected, std::max<int64_t>(sizes[i], 1), &expected))
      return false;
  }
  return true;
}
} // namespace

at::Tensor empty_like_contiguous(const at::Tensor &tensor) {
  const c10::TensorImpl *like = tensor.unsafeGetTensorImpl();
  return new_contiguous(like->sizes(), like->dtype(), static_cast<size_t>(like->numel()) * like->itemsize(),
                        device_number(tensor));
}

at::Tensor empty(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, c10::DeviceIndex device) {
  // PyTorch warns of new complex32 tensors.
  if (dtype != c10::kComplexHalf && contiguous(sizes, strides)) {
    const caffe2::TypeMeta type = c10::scalarTypeToTypeMeta(dtype);
    if (size_t bytes; count_bytes(sizes, type.itemsize(), &bytes)) return new_contiguous(sizes, type, bytes, device);
  }
  DeviceScope scope(device);
  if (strides.empty() && !sizes.empty()) // too large, or a size below zero: an error of PyTorch's; or complex32
    return at::Tensor(at::detail::empty_generic(sizes, runtime.allocator, key_set, dtype, std::nullopt));
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, runtime.allocator, key_set, dtype));
}

} // namespace tb::ops

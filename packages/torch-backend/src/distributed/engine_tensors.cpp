// engine_tensors.cpp -- see engine_tensors.h.
#include "engine_tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <iterator>

namespace tb::distributed {
namespace {

// A tensor over `data`, with the shape of `like`; `dense`: contiguous, else with its strides and offset.
at::Tensor tensor_over(c10::DataPtr data, size_t bytes, const at::Tensor &like, bool dense, bool as_bytes) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                       nullptr, false);
  const auto item = static_cast<int64_t>(like.element_size());
  c10::DimVector sizes(like.sizes()), strides(like.strides());
  if (as_bytes) {
    sizes.push_back(item);
    for (int64_t &stride : strides) stride *= item;
    strides.push_back(1);
  }
  const c10::DispatchKey key = c10::computeDispatchKey(std::nullopt, std::nullopt, storage->device());
  at::Tensor out =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(key),
                                               as_bytes ? caffe2::TypeMeta::Make<uint8_t>() : like.dtype());
  if (dense)
    out.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  else
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, like.storage_offset() * (as_bytes ? item : 1));
  return out;
}

void free_pinned(void *block) { runtime.allocator.host_deallocate(static_cast<tb_block *>(block)); }

} // namespace

bool engine_computes(c10::ScalarType type) {
  using enum c10::ScalarType;
  switch (type) {
  case Float:
  case Double:
  case Half:
  case BFloat16:
  case Byte:
  case Char:
  case Int:
  case Long:
  case Bool:
    return true;
  default:
    return false;
  }
}

EngineTensors::EngineTensors(const Operation &operation, int32_t device, c10::DeviceType of_engine)
    : operation_(operation), device_(device), of_engine_(of_engine) {
  open();
  stream_ = current_stream(device);
}

at::Tensor EngineTensors::of(const at::Tensor &tensor, Use use) {
  if (!tensor.defined()) return tensor;
  TORCH_CHECK_VALUE(tensor.device() == make_device(device_), operation_.name,
                    " takes tensors of one device, but got one of ", make_device(device_), " and one of ",
                    tensor.device(), ": move them to one device");
  const bool as_bytes = operation_.only_moves && !engine_computes(tensor.scalar_type());
  const bool of_cpu = of_engine_ == c10::kCPU;
  if (of_cpu && !runtime.host_accessible) return pinned_copy(tensor, use, as_bytes);
  // Gloo takes as many elements as there are from where the first one is, and NCCL refuses them.
  if (!tensor.is_contiguous()) {
    const at::Tensor dense =
        use == Use::write ? at::empty_like(tensor, at::MemoryFormat::Contiguous) : tensor.contiguous();
    if (use != Use::read) copies_.push_back({tensor, dense, nullptr});
    return of(dense, use);
  }
  const c10::Storage &storage = tensor.storage();
  storages_.push_back(storage);
  if (runtime.races.layer && tensor.numel() > 0) uses_.emplace_back(tensor, use);
  const c10::Device engine_device(of_engine_, of_cpu ? -1 : tensor.device().index());
  at::Tensor out =
      tensor_over({const_cast<void *>(storage.data()), engine_device}, storage.nbytes(), tensor, false, as_bytes);
  if (tensor.is_conj()) out._set_conj(true);
  if (tensor.is_neg()) out._set_neg(true);
  return out;
}

at::Tensor EngineTensors::pinned_copy(const at::Tensor &tensor, Use use, bool as_bytes) {
  void *memory = nullptr;
  tb_block *block = nullptr;
  const size_t bytes = tensor.nbytes();
  check(runtime.allocator.host_allocate(bytes, &memory, &block), "host_allocate", device_);
  at::Tensor staged =
      tensor_over(block ? c10::DataPtr(memory, block, &free_pinned, c10::kCPU) : c10::DataPtr(memory, c10::kCPU), bytes,
                  tensor, true, as_bytes);
  if (use != Use::write && bytes) {
    const at::Tensor from = tensor.contiguous();
    check(runtime.driver->mem_copy(runtime.self, device_, stream_, memory, from.const_data_ptr(), bytes,
                                   TB_COPY_DEVICE_TO_HOST),
          "mem_copy", device_);
    check(runtime.allocator.host_record_stream(block, stream_), "host_record_stream", device_);
  }
  copies_.push_back({use == Use::read ? at::Tensor() : tensor, staged, block}); // what is read is kept only
  return staged;
}

std::vector<at::Tensor> EngineTensors::of(const std::vector<at::Tensor> &tensors, Use use) {
  std::vector<at::Tensor> out;
  out.reserve(tensors.size());
  for (const at::Tensor &tensor : tensors) out.push_back(of(tensor, use));
  return out;
}

std::vector<std::vector<at::Tensor>> EngineTensors::of(const std::vector<std::vector<at::Tensor>> &tensors, Use use) {
  std::vector<std::vector<at::Tensor>> out;
  out.reserve(tensors.size());
  for (const auto &list : tensors) out.push_back(of(list, use));
  return out;
}

void EngineTensors::join(EngineTensors &other) {
  std::ranges::move(other.uses_, std::back_inserter(uses_));
  std::ranges::move(other.take_storages(), std::back_inserter(storages_));
  std::ranges::move(other.take_copies(), std::back_inserter(copies_));
}

void bring_back(const std::vector<StagedCopy> &copies, int32_t device) {
  tb_stream *stream = current_stream(device);
  for (const StagedCopy &copy : copies) {
    if (!copy.tensor.defined() || copy.tensor.nbytes() == 0) continue;
    if (!copy.block) {
      copy.tensor.copy_(copy.staged);
      continue;
    }
    const bool direct = copy.tensor.is_contiguous();
    const at::Tensor to = direct ? copy.tensor : at::empty_like(copy.tensor, at::MemoryFormat::Contiguous);
    check(runtime.driver->mem_copy(runtime.self, device, stream, to.mutable_data_ptr(), copy.staged.const_data_ptr(),
                                   copy.tensor.nbytes(), TB_COPY_HOST_TO_DEVICE),
          "mem_copy", device);
    check(runtime.allocator.host_record_stream(copy.block, stream), "host_record_stream", device);
    if (!direct) copy.tensor.copy_(to);
  }
}

} // namespace tb::distributed

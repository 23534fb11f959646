// Reading and writing by index: embeddings, index_select, index_put_, take, put_ and their kin.
#include "backends/host/indexing/index_bounds.h"
#include "backends/host/iterator_stub.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/PixelShuffle.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexing.h>
#include <ATen/native/UnfoldBackward.h>
#include <ATen/ops/_index_put_impl_native.h>
#include <ATen/ops/embedding_dense_backward_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/flip_native.h>
#include <ATen/ops/index_fill_native.h>
#include <ATen/ops/index_select_native.h>
#include <ATen/ops/masked_scatter_native.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/trace_native.h>
#include <ATen/ops/trace_ops.h>

#include "backends/host/host.h"
#include "dispatch/call_checked.h"
#include "tensor/output_donation.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

// ---- whole rows -------------------------------------------------------------------------------------------------

void index_select_kernel(const Tensor &self, int64_t dim, const Tensor &index, Tensor &out) {
  at::native::index_select_out_cpu_(self, dim, index, out);
}

c10::DimVector index_select_check(const Tensor &self, int64_t &dim, const Tensor &index) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1), "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK(index.scalar_type() == c10::kLong || index.scalar_type() == c10::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  c10::DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[static_cast<size_t>(dim)] = index.numel();
  return sizes;
}

Tensor index_select(const Tensor &self, int64_t dim, const Tensor &index) {
  const c10::DimVector sizes = index_select_check(self, dim, index);
  const c10::DeviceIndex device = common_device("aten::index_select", {&self, &index});
  Tensor out = empty_on(self, sizes, self.scalar_type());
  launch_kernel<"aten::index_select", index_select_kernel>(device, self, dim, index, out);
  return out;
}

Tensor &index_select_out(const Tensor &self, int64_t dim, const Tensor &index, Tensor &out) {
  const c10::DimVector sizes = index_select_check(self, dim, index);
  const c10::DeviceIndex device = common_device("aten::index_select", {&self, &index, &out});
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  at::native::resize_output(out, sizes);
  launch_kernel<"aten::index_select", index_select_kernel>(device, self, dim, index, out);
  return out;
}

void embedding_dense_backward_kernel(const Tensor &grad, const Tensor &indices, int64_t rows, int64_t padding,
                                     bool by_frequency, Tensor &out) {
  if (by_frequency)
    check_bounds(indices, rows, "embedding_dense_backward"); // they count the rows; else all are compared
  OutputDonation donation(out);
  donation.collect(at::native::embedding_dense_backward_cpu(grad, indices, rows, padding, by_frequency));
}

Tensor embedding_dense_backward(const Tensor &grad, const Tensor &indices, int64_t rows, int64_t padding,
                                bool by_frequency) {
  at::checkScalarTypes("embedding_backward", at::TensorArg(indices, "indices", 2), {c10::kLong, c10::kInt});
  const c10::DeviceIndex device = common_device("aten::embedding_dense_backward", {&grad, &indices});
  Tensor out = empty_on(grad, {rows, grad.size(-1)}, grad.scalar_type());
  launch_kernel<"aten::embedding_dense_backward", embedding_dense_backward_kernel>(device, grad, indices, rows, padding,
                                                                                   by_frequency, out);
  return out;
}

// Checks the arguments as the CPU does, whose exception differs from narrow's.
Tensor narrow_copy(const Tensor &self, int64_t dim, int64_t start, int64_t length) {
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK(dim < self.dim(), "narrow_copy: dim is ", dim, " but the tensor has ", self.dim(), " dimensions");
  return at::native::narrow_copy_dense_symint(self, dim, start, length);
}

// ---- single elements --------------------------------------------------------------------------------------------

// If several values may go to one place, PyTorch calls index_put_with_sort_stub on other devices than the CPU. The CPU
// has no such kernel, so the plain one runs.
using OptionalTensors = c10::List<std::optional<Tensor>>;
void index_put_sorted_kernel(Tensor &self, const OptionalTensors &indices, const Tensor &values, bool accumulate,
                             bool unsafe) {
  at::native::_index_put_impl_(self, indices, values, accumulate, unsafe);
}
void check_masks(const Tensor &self, const OptionalTensors &indices) {
  int64_t dim = 0;
  for (const std::optional<Tensor> &index : indices) {
    const bool mask =
        index && index->defined() && (index->scalar_type() == c10::kBool || index->scalar_type() == c10::kByte);
    for (int64_t i = 0; mask && i < index->dim(); i++)
      TORCH_CHECK_INDEX(dim + i < self.dim() && index->size(i) == self.size(dim + i), "The shape of the mask ",
                        index->sizes(), " at index ", i, " does not match the shape of the indexed tensor ",
                        self.sizes(), " at index ", dim + i);
    dim += mask ? index->dim() : 1;
  }
}
// Indices may be on any device, as on CUDA. Those on the CPU are captured as they are.
bool is_far(const std::optional<Tensor> &index, c10::Device device) {
  return index && index->defined() && !index->is_cpu() && index->device() != device;
}
OptionalTensors on_device_or_host(const OptionalTensors &indices, c10::Device device) {
  OptionalTensors moved;
  for (const std::optional<Tensor> &index : indices) {
    if (is_far(index, device))
      moved.push_back(index->to(device));
    else
      moved.push_back(index);
  }
  return moved;
}
void index_put_sorted(Tensor &self, const OptionalTensors &indices, const Tensor &values, bool accumulate,
                      bool unsafe) {
  check_masks(self, indices);
  const c10::DeviceIndex device = common_device("aten::index_put_", {&self, &values});
  const auto far = [&](const std::optional<Tensor> &index) { return is_far(index, self.device()); };
  const OptionalTensors near =
      std::any_of(indices.begin(), indices.end(), far) ? on_device_or_host(indices, self.device()) : indices;
  launch_kernel<"aten::index_put_", index_put_sorted_kernel>(device, self, near, values, accumulate, unsafe);
}

Tensor &index_fill_tensor(Tensor &self, int64_t dim, const Tensor &index, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return at::native::index_fill_(self, dim, index, value.item());
}

void masked_scatter_kernel(Tensor &self, const Tensor &mask, const Tensor &source) {
  at::native::masked_scatter__cpu(self, mask, source);
}

Tensor &masked_scatter(Tensor &self, const Tensor &mask, const Tensor &source) {
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.dtype() == c10::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  const c10::DeviceIndex device = common_device("aten::masked_scatter_", {&self, &mask, &source});
  const auto expanded = at::expand_inplace(self, mask, "masked_scatter_");
  launch_kernel<"aten::masked_scatter_", masked_scatter_kernel>(device, self, *expanded, source);
  return self;
}

// ---- moving -----------------------------------------------------------------------------------------------------

Tensor flip(const Tensor &self, c10::IntArrayRef dims) {
  std::vector<bool> seen(static_cast<size_t>(std::max<int64_t>(self.dim(), 1)));
  for (int64_t dim : dims) {
    const auto wrapped = static_cast<size_t>(c10::maybe_wrap_dim(dim, self.dim()));
    TORCH_CHECK(!seen[wrapped], "dim ", wrapped, " appears multiple times in the list of dims");
    seen[wrapped] = true;
  }
  Tensor out = at::empty_like(self, c10::MemoryFormat::Preserve);
  launch_kernel<"aten::flip", donating<at::native::flip>>(device_number(self), out, self, dims);
  return out;
}

// Both operators have a kernel here because PyTorch's composite implementations lose the memory format.
template <Name name, auto function>
Tensor shuffle_pixels(const Tensor &self, int64_t factor, int64_t channels, int64_t height, int64_t width) {
  c10::DimVector sizes(self.sizes().begin(), self.sizes().end() - 3);
  sizes.append({channels, height, width});
  Tensor out = empty_formatted(self, sizes, self.scalar_type(), self.suggest_memory_format());
  if (out.numel() > 0) launch_kernel<name, donating<function>>(device_number(self), out, self, factor);
  return out;
}

Tensor pixel_shuffle(const Tensor &self, int64_t factor) {
  at::native::check_pixel_shuffle_shapes(self, factor);
  return shuffle_pixels<"aten::pixel_shuffle", at::native::pixel_shuffle_cpu>(
      self, factor, self.size(-3) / (factor * factor), self.size(-2) * factor, self.size(-1) * factor);
}

Tensor pixel_unshuffle(const Tensor &self, int64_t factor) {
  at::native::check_pixel_unshuffle_shapes(self, factor);
  return shuffle_pixels<"aten::pixel_unshuffle", at::native::pixel_unshuffle_cpu>(
      self, factor, self.size(-3) * factor * factor, self.size(-2) / factor, self.size(-1) / factor);
}

void trace_kernel(const Tensor &self, Tensor &out) { copy_result(out, at::native::trace_cpu(self)); }

Tensor trace(const Tensor &self) {
  if (self.dim() != 2) return call_checked<at::_ops::trace>(self); // the CPU's kernel raises its own error
  const c10::ScalarType type = c10::isIntegralType(self.scalar_type(), true) ? c10::kLong : self.scalar_type();
  Tensor out = empty_on(self, {}, type);
  launch_kernel<"aten::trace", trace_kernel>(device_number(self), self, out);
  return out;
}

} // namespace

void register_indexing(torch::Library &aten) {
  enter_stub<"aten::index_put_", at::native::index_put_stub>();
  at::native::index_put_with_sort_stub.set_privateuse1_dispatch_ptr(&index_put_sorted);
  enter_stub<"aten::index_fill_", at::native::index_fill_stub>();
  enter_stub<"aten::unfold_backward", at::native::unfold_backward_stub>();
  enter_stub<"aten::put_", at::native::put_stub>();
  enter_stub<"aten::take", at::native::take_stub>();
  aten.impl("index_select", &index_select);
  aten.impl("index_select.out", &index_select_out);
  aten.impl("narrow_copy", &narrow_copy);
  aten.impl("embedding_dense_backward", &embedding_dense_backward);
  aten.impl("index_fill_.int_Tensor", &index_fill_tensor);
  aten.impl("masked_scatter_", &masked_scatter);
  aten.impl("pixel_shuffle", &pixel_shuffle);
  aten.impl("pixel_unshuffle", &pixel_unshuffle);
  aten.impl("flip", &flip);
  aten.impl("trace", &trace);
}

} // namespace tb::ops::host

// Gathering, scattering and selecting by an index.
#include "backends/jit/device_facts.h"
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

#include <ATen/Context.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_add_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;

// Returns an integer type of the same size. Kernels that only move elements are compiled for these types alone.
c10::ScalarType moved_as(const Tensor &tensor) {
  switch (tensor.element_size()) {
  case 1:
    return c10::kByte;
  case 2:
    return c10::kShort;
  case 4:
    return c10::kInt;
  default:
    return c10::kLong;
  }
}

// Whether the kernels can add atomically to elements of that type on the device.
bool adds_in_place(c10::DeviceIndex device, c10::ScalarType type) {
  switch (type) {
  case c10::kInt:
    return true;
  case c10::kLong:
    return facts_of(device).atomic64;
  case c10::kFloat:
  case c10::kDouble:
    return facts_of(device).float_atomics;
  default:
    return false;
  }
}

// The kernels add in no fixed order, so the sums are not reproducible. A program that asks for deterministic algorithms
// gets the CPU fallback.
bool may_add() { return !at::globalContext().deterministicAlgorithms(); }

bool fits(const Tensor &index, std::initializer_list<const Tensor *> tensors) {
  return index.scalar_type() == c10::kLong && index.dim() <= kernels::max_dims && supported(tensors);
}

// Returns a tensor without dimensions as one with a single dimension, as the kernels need it.
Tensor shaped(const Tensor &tensor) { return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor; }

// Launches a kernel that takes, for each element of the index, an element of `indexed` and one of `other`. It takes
// `value` if `other` is undefined.
void launch_indexed(const char *name, c10::ScalarType type, const Tensor &indexed_given, int64_t dim,
                    const Tensor &index_given, const Tensor &other_given, const c10::Scalar &value = 0) {
  if (index_given.numel() == 0) return;
  const Tensor indexed = shaped(indexed_given), index = shaped(index_given),
               other = other_given.defined() ? shaped(other_given) : other_given;
  kernels::IndexArguments arguments{};
  arguments.dims = static_cast<int>(index.dim());
  arguments.dim = arguments.dims - 1 - static_cast<int>(at::maybe_wrap_dim(dim, index.dim()));
  arguments.count = index.numel();
  for (int d = 0; d < arguments.dims; d++) {
    const int64_t from = index.dim() - 1 - d;
    arguments.sizes[d] = index.size(from);
    arguments.index_strides[d] = index.stride(from);
    arguments.indexed_strides[d] = indexed.stride(from);
    if (other.defined()) arguments.other_strides[d] = other.stride(from);
  }
  arguments.limit = indexed.size(index.dim() - 1 - arguments.dim);
  arguments.index = static_cast<const kernels::Long *>(index.const_data_ptr());
  arguments.indexed = const_cast<void *>(indexed.const_data_ptr());
  if (other.defined()) arguments.other = const_cast<void *>(other.const_data_ptr());
  arguments.value = scalar_of(value);
  launch_elements(device_number(indexed), {"indexing.cuh", instance(name, type), "IndexArguments"}, arguments.count,
                  arguments);
}

Tensor &gather(const Tensor &self, int64_t dim, const Tensor &index, bool sparse, Tensor &out) {
  if (!fits(index, {&self, &out})) return call_fallback<at::_ops::gather_out>(self, dim, index, sparse, out);
  Out<at::meta::structured_gather> op(out);
  op.meta(self, dim, index, sparse);
  launch_indexed("gather", moved_as(self), self, dim, index, out);
  return out;
}

void start_from(const Tensor &self, Tensor &out) {
  if (!out.is_same(self)) out.copy_(self);
}

Tensor &scatter(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &source, Tensor &out) {
  if (!fits(index, {&self, &source, &out}))
    return call_fallback<at::_ops::scatter_src_out>(self, dim, index, source, out);
  Out<at::meta::structured_scatter_src> op(out);
  op.meta(self, dim, index, source);
  start_from(self, out);
  launch_indexed("scatter", moved_as(self), out, dim, index, source);
  return out;
}

Tensor &scatter_value(const Tensor &self, int64_t dim, const Tensor &index, const c10::Scalar &value, Tensor &out) {
  if (!fits(index, {&self, &out})) return call_fallback<at::_ops::scatter_value_out>(self, dim, index, value, out);
  Out<at::meta::structured_scatter_value> op(out);
  op.meta(self, dim, index, value);
  start_from(self, out);
  launch_indexed("scatter", out.scalar_type(), out, dim, index, {}, value);
  return out;
}

Tensor &scatter_add(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &source, Tensor &out) {
  if (!fits(index, {&self, &source, &out}) || !adds_in_place(self.device().index(), self.scalar_type()) || !may_add())
    return call_fallback<at::_ops::scatter_add_out>(self, dim, index, source, out);
  Out<at::meta::structured_scatter_add> op(out);
  op.meta(self, dim, index, source);
  start_from(self, out);
  launch_indexed("scatter_add", out.scalar_type(), out, dim, index, source);
  return out;
}

// ---- along one dimension ------------------------------------------------------------------------------------------

bool is_index(const Tensor &index) {
  return (index.scalar_type() == c10::kLong || index.scalar_type() == c10::kInt) && index.dim() <= 1;
}

kernels::SelectArguments selection(const Tensor &whole, int64_t dim, const Tensor &index) {
  kernels::SelectArguments arguments{};
  arguments.outer = arguments.inner = arguments.places = 1;
  for (int64_t d = 0; d < whole.dim(); d++)
    (d < dim ? arguments.outer : d == dim ? arguments.places : arguments.inner) *= whole.size(d);
  arguments.count = index.numel();
  arguments.index = index.const_data_ptr();
  arguments.index_type = type_code(index.scalar_type());
  arguments.skipped = -1;
  return arguments;
}

Tensor &index_select_out(const Tensor &self, int64_t dim, const Tensor &index, Tensor &out) {
  if (!supported({&self, &out}) || !is_index(index))
    return call_fallback<at::_ops::index_select_out>(self, dim, index, out);
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  const c10::DeviceIndex device = common_device("aten::index_select", {&self, &index, &out});
  const int64_t along = at::maybe_wrap_dim(dim, self.dim());
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  if (self.dim() > 0) sizes[static_cast<size_t>(along)] = index.numel();
  at::native::resize_output(out, sizes);
  const Tensor from = contiguous(self), places = contiguous(index);
  with_contiguous(out, [&](const Tensor &to) {
    kernels::SelectArguments arguments = selection(from, along, places);
    arguments.source = from.const_data_ptr(), arguments.result = to.mutable_data_ptr();
    launch_elements(device, {"indexing.cuh", instance("select", moved_as(from)), "SelectArguments"}, to.numel(),
                    arguments);
  });
  return out;
}

Tensor index_select(const Tensor &self, int64_t dim, const Tensor &index) {
  if (!supported({&self}) || !is_index(index)) return call_fallback<at::_ops::index_select>(self, dim, index);
  Tensor out = empty({0}, {}, self.scalar_type(), device_number(self));
  return index_select_out(self, dim, index, out);
}

void launch_select_add(const kernels::SelectArguments &arguments, c10::ScalarType stored, const Tensor &total) {
  const std::string body = std::string("select_add<") + type_name(stored) + ", " + type_name(total.scalar_type()) + ">";
  launch_elements(device_number(total), {"indexing.cuh", body, "SelectArguments"},
                  arguments.outer * arguments.count * arguments.inner, arguments);
}

Tensor &index_add(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &source, const c10::Scalar &alpha,
                  Tensor &out) {
  if (!supported({&self, &source, &out}) || !is_index(index) ||
      !adds_in_place(self.device().index(), self.scalar_type()) || !may_add() || self.dim() == 0)
    return call_fallback<at::_ops::index_add_out>(self, dim, index, source, alpha, out);
  Out<at::meta::structured_index_add> op(out);
  op.meta(self, dim, index, source, alpha);
  start_from(self, out);
  const bool plain = alpha.toDouble() == 1;
  const Tensor from = contiguous(plain ? source : at::_ops::mul_Scalar::call(source, alpha)),
               places = contiguous(index), total = contiguous(out);
  kernels::SelectArguments arguments = selection(total, at::maybe_wrap_dim(dim, self.dim()), places);
  arguments.source = from.const_data_ptr(), arguments.result = total.mutable_data_ptr();
  launch_select_add(arguments, from.scalar_type(), total);
  if (!total.is_same(out)) out.copy_(total);
  return out;
}

// Adds the gradients of each row's uses. The sums of 16-bit gradients are in single precision.
Tensor embedding_backward(const Tensor &grad, const Tensor &indices, int64_t rows, int64_t padding, bool by_frequency) {
  const bool index = indices.scalar_type() == c10::kLong || indices.scalar_type() == c10::kInt;
  if (!supported({&grad}) || !index || by_frequency || !c10::isFloatingType(grad.scalar_type()) ||
      !adds_in_place(grad.device().index(), c10::kFloat) || !may_add())
    return call_fallback<at::_ops::embedding_dense_backward>(grad, indices, rows, padding, by_frequency);
  const c10::DeviceIndex device = common_device("aten::embedding_dense_backward", {&grad, &indices});
  const c10::ScalarType summed = grad.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
  Tensor total = empty({rows, grad.size(-1)}, {}, summed, device);
  total.zero_();
  const Tensor from = contiguous(grad), places = contiguous(indices);
  kernels::SelectArguments arguments = selection(total, 0, places);
  arguments.source = from.const_data_ptr(), arguments.result = total.mutable_data_ptr();
  arguments.skipped = padding;
  launch_select_add(arguments, from.scalar_type(), total);
  return total.to(grad.scalar_type());
}

} // namespace

void register_indexing(torch::Library &aten) {
  aten.impl("gather.out", &gather);
  aten.impl("scatter.src_out", &scatter);
  aten.impl("scatter.value_out", &scatter_value);
  aten.impl("scatter_add.out", &scatter_add);
  aten.impl("index_select", &index_select);
  aten.impl("index_select.out", &index_select_out);
  aten.impl("index_add.out", &index_add);
  aten.impl("embedding_dense_backward", &embedding_backward);
}

} // namespace tb::ops::jit

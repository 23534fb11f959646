// Gathering, scattering and selecting by an index.
#include "backends/jit/operators/indexing.h"

#include "backends/jit/device_facts.h"
#include "backends/jit/jit.h"
#include "backends/jit/rows.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_add_ops.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_copy_ops.h>
#include <ATen/ops/index_fill_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;

bool fits(const Tensor &index, std::initializer_list<const Tensor *> tensors) {
  return index.scalar_type() == c10::kLong && index.dim() <= kernels::max_dims && supported(tensors) &&
         supported({*tensors.begin(), &index});
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
  if (!fits(index, {&self, &out}) || value.isComplex())
    return call_fallback<at::_ops::scatter_value_out>(self, dim, index, value, out);
  Out<at::meta::structured_scatter_value> op(out);
  op.meta(self, dim, index, value);
  start_from(self, out);
  launch_indexed("scatter", out.scalar_type(), out, dim, index, {}, value);
  return out;
}

Tensor &scatter_add(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &source, Tensor &out) {
  const c10::ScalarType added = added_as(self.device().index(), self.scalar_type());
  if (!fits(index, {&self, &source, &out}) || added == c10::ScalarType::Undefined)
    return call_fallback<at::_ops::scatter_add_out>(self, dim, index, source, out);
  Out<at::meta::structured_scatter_add> op(out);
  op.meta(self, dim, index, source);
  start_from(self, out);
  const Tensor total = out.to(added);
  launch_indexed("scatter_add", added, total, dim, index, source.to(added));
  return total.is_same(out) ? out : out.copy_(total);
}

// ---- along one dimension ------------------------------------------------------------------------------------------

bool is_index(const Tensor &index) {
  return (index.scalar_type() == c10::kLong || index.scalar_type() == c10::kInt) && index.dim() <= 1;
}

kernels::SelectArguments selection(const Tensor &whole, int64_t dim, const Tensor &index) {
  kernels::SelectArguments arguments{};
  const Extents extents = extents_along(whole, dim);
  arguments.outer = extents.outer, arguments.places = extents.size, arguments.inner = extents.inner;
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
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  TORCH_CHECK(self.dim() > 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
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
  const c10::ScalarType added = added_as(self.device().index(), self.scalar_type());
  if (!supported({&self, &index, &source, &out}) || !is_index(index) || added == c10::ScalarType::Undefined ||
      self.dim() == 0)
    return call_fallback<at::_ops::index_add_out>(self, dim, index, source, alpha, out);
  Out<at::meta::structured_index_add> op(out);
  op.meta(self, dim, index, source, alpha);
  start_from(self, out);
  const bool plain = alpha.toDouble() == 1;
  const Tensor from = contiguous(plain ? source : at::_ops::mul_Scalar::call(source, alpha)),
               places = contiguous(index), total = contiguous(out.to(added));
  kernels::SelectArguments arguments = selection(total, at::maybe_wrap_dim(dim, self.dim()), places);
  arguments.source = from.const_data_ptr(), arguments.result = total.mutable_data_ptr();
  launch_select_add(arguments, from.scalar_type(), total);
  return total.is_same(out) ? out : out.copy_(total);
}

// Writes the source's elements, or the value if there is no source, at the places of the index.
void launch_select_put(const Tensor &out, int64_t dim, const Tensor &index, const Tensor &source,
                       const c10::Scalar &value) {
  if (out.numel() == 0) return;
  const Tensor from = contiguous(source), places = contiguous(index), to = contiguous(out);
  kernels::SelectArguments arguments = selection(to, dim, places);
  if (from.defined()) arguments.source = from.const_data_ptr();
  arguments.result = to.mutable_data_ptr(), arguments.value = scalar_of(value);
  const c10::ScalarType type = from.defined() ? moved_as(to) : to.scalar_type();
  launch_elements(device_number(to), {"indexing.cuh", instance("select_put", type), "SelectArguments"},
                  arguments.outer * arguments.count * arguments.inner, arguments);
  if (!to.is_same(out)) const_cast<Tensor &>(out).copy_(to);
}

Tensor &index_copy(const Tensor &self, int64_t dim, const Tensor &index, const Tensor &source, Tensor &out) {
  if (!supported({&self, &index, &source, &out}) || !is_index(index))
    return call_fallback<at::_ops::index_copy_out>(self, dim, index, source, out);
  Out<at::meta::structured_index_copy> op(out);
  op.meta(self, dim, index, source);
  start_from(self, out);
  launch_select_put(out, dim, index, source, 0);
  return out;
}

Tensor &index_fill(Tensor &self, int64_t dim, const Tensor &index, const c10::Scalar &value) {
  if (!supported({&self}) || value.isComplex() || index.scalar_type() != c10::kLong || index.dim() > 1)
    return call_fallback<at::_ops::index_fill__int_Scalar>(self, dim, index, value);
  common_device("aten::index_fill_", {&self, &index});
  if (self.numel() > 0 && index.numel() > 0) check_number(value, self.scalar_type());
  launch_select_put(self, at::maybe_wrap_dim(dim, self.dim()), index, {}, value);
  return self;
}

Tensor &index_fill_tensor(Tensor &self, int64_t dim, const Tensor &index, const Tensor &value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return index_fill(self, dim, index, value.item()); // waits if the value is on the device
}

// Adds the gradients of each row's uses. The sums of 16-bit gradients are in single precision.
Tensor embedding_backward(const Tensor &grad, const Tensor &indices, int64_t rows, int64_t padding, bool by_frequency) {
  const bool index = indices.scalar_type() == c10::kLong || indices.scalar_type() == c10::kInt;
  if (!supported({&grad}) || !index || by_frequency || !c10::isFloatingType(grad.scalar_type()) ||
      added_as(grad.device().index(), c10::kFloat) == c10::ScalarType::Undefined)
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

c10::ScalarType added_as(c10::DeviceIndex device, c10::ScalarType type) {
  const bool floats = facts_of(device).float_atomics && !at::globalContext().deterministicAlgorithms();
  switch (type) {
  case c10::kLong:
    return facts_of(device).atomic64 ? type : c10::ScalarType::Undefined;
  case c10::kFloat:
  case c10::kDouble:
    return floats ? type : c10::ScalarType::Undefined;
  case c10::kHalf:
  case c10::kBFloat16:
    return floats ? c10::kFloat : c10::ScalarType::Undefined;
  case c10::kBool:
  case c10::kByte:
  case c10::kChar:
  case c10::kShort:
  case c10::kInt:
    return c10::kInt;
  default:
    return c10::ScalarType::Undefined;
  }
}

void register_indexing(torch::Library &aten) {
  register_advanced_indexing(aten);
  aten.impl("gather.out", &gather);
  aten.impl("scatter.src_out", &scatter);
  aten.impl("scatter.value_out", &scatter_value);
  aten.impl("scatter_add.out", &scatter_add);
  aten.impl("index_select", &index_select);
  aten.impl("index_select.out", &index_select_out);
  aten.impl("index_add.out", &index_add);
  aten.impl("index_copy.out", &index_copy);
  aten.impl("index_fill_.int_Scalar", &index_fill);
  aten.impl("index_fill_.int_Tensor", &index_fill_tensor);
  aten.impl("embedding_dense_backward", &embedding_backward);
}

} // namespace tb::ops::jit

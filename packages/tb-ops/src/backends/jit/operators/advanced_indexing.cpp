// Indexing with several tensors: x[i, j], x[i, j] = y, and flat indices.
#include "backends/jit/operators/indexing.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/_index_put_impl_ops.h>
#include <ATen/ops/index_meta.h>
#include <ATen/ops/index_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/put_ops.h>
#include <ATen/ops/take_ops.h>

#include "backends/jit/jit.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

// An indexed tensor with its indexed dimensions side by side, and the indices, of one shape. The shape of the result
// has the indices' dimensions in the place of the indexed ones.
struct Indexing {
  Tensor indexed;
  std::vector<Tensor> indices; // one for each of the indexed dimensions
  int64_t before = 0;          // dimensions before those
  at::DimVector shape;
};

std::vector<Tensor> broadcast(const std::vector<Tensor> &indices) {
  try {
    return at::expand_outplace(indices);
  } catch (const c10::Error &) {
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      at::native::shapes_as_str(indices));
  }
}

Indexing resolve(const Tensor &self, const Indices &given) {
  at::native::checkIndexTensorTypes(given, true);
  std::vector<Tensor> all = broadcast(at::native::expandTensors(self, given, true));
  TORCH_CHECK_INDEX(static_cast<int64_t>(all.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", all.size(), ")");
  all.resize(static_cast<size_t>(self.dim()));
  Indexing found{self, {}, 0, {}};
  if (!at::native::hasContiguousSubspace(all)) std::tie(found.indexed, all) = at::native::transposeToFront(self, all);
  for (const Tensor &index : all) {
    if (index.defined())
      found.indices.push_back(index.to(c10::kLong));
    else if (found.indices.empty())
      found.before++;
  }
  TORCH_CHECK_INDEX(!found.indices.empty(), "no tensor among the indices");
  const c10::IntArrayRef sizes = found.indexed.sizes(), inserted = found.indices[0].sizes();
  const auto before = static_cast<size_t>(found.before);
  found.shape.append(sizes.begin(), sizes.begin() + before);
  found.shape.append(inserted.begin(), inserted.end());
  found.shape.append(sizes.begin() + before + found.indices.size(), sizes.end());
  return found;
}

bool few_enough(const Indexing &found) {
  return found.indices.size() <= kernels::max_indices && found.shape.size() <= kernels::max_dims;
}

// Launches a kernel over the elements of `plain`, which has the shape of the result.
void launch_indexing(const char *name, c10::ScalarType type, const Indexing &found, const Tensor &plain) {
  const Tensor &indexed = found.indexed;
  const auto size = static_cast<int64_t>(indexed.element_size());
  const auto dims = static_cast<int64_t>(found.shape.size()), of_index = found.indices[0].dim();
  const auto indices = static_cast<int64_t>(found.indices.size());
  kernels::AdvancedIndexArguments arguments{};
  arguments.count = plain.numel(), arguments.dims = static_cast<int>(dims);
  arguments.indices = static_cast<int>(indices);
  arguments.plain = const_cast<void *>(plain.const_data_ptr());
  arguments.indexed = const_cast<void *>(indexed.const_data_ptr());
  for (int64_t d = 0; d < dims; d++) {
    const int64_t to = dims - 1 - d, in_index = d - found.before;
    arguments.sizes[to] = plain.size(d);
    arguments.plain_strides[to] = plain.stride(d) * size;
    if (in_index < 0)
      arguments.indexed_strides[to] = indexed.stride(d) * size;
    else if (in_index >= of_index)
      arguments.indexed_strides[to] = indexed.stride(d - of_index + indices) * size;
    else
      for (size_t k = 0; k < found.indices.size(); k++)
        arguments.index_strides[k][to] = found.indices[k].stride(in_index) * int64_t{sizeof(int64_t)};
  }
  for (size_t k = 0; k < found.indices.size(); k++) {
    const int64_t dim = found.before + static_cast<int64_t>(k);
    arguments.index[k] = found.indices[k].const_data_ptr();
    arguments.limits[k] = indexed.size(dim), arguments.steps[k] = indexed.stride(dim) * size;
  }
  launch_elements(device_number(indexed), {"advanced_indexing.cuh", instance(name, type), "AdvancedIndexArguments"},
                  arguments.count, arguments);
}

Tensor &index_out(const Tensor &self, const Indices &given, Tensor &out) {
  if (!supported({&self, &out})) return call_fallback<at::_ops::index_Tensor_out>(self, given, out);
  const Indices indices = has_masks(given) ? without_masks(self, given) : given;
  Out<at::meta::structured_index_Tensor> op(out);
  op.meta(self, indices);
  const Indexing found = resolve(self, indices);
  if (!few_enough(found)) return call_fallback<at::_ops::index_Tensor_out>(self, given, out);
  launch_indexing("index_get", moved_as(self), found, out);
  return out;
}

// Masks are converted once, which waits. PyTorch's own kernel would convert them for the meta function again.
Tensor index(const Tensor &self, const Indices &given) {
  if (!supported({&self})) return call_fallback<at::_ops::index_Tensor>(self, given);
  const Indices indices = has_masks(given) ? without_masks(self, given) : given;
  const Indexing found = resolve(self, indices);
  if (!few_enough(found)) return call_fallback<at::_ops::index_Tensor>(self, given);
  Structured<at::meta::structured_index_Tensor, Schema::functional, 1> op;
  op.meta(self, indices);
  launch_indexing("index_get", moved_as(self), found, op.output(0));
  return op.output(0);
}

void put(const Tensor &self, const Indexing &found, const Tensor &values) {
  launch_indexing("index_put", moved_as(self), found, values);
}

Tensor &index_put(Tensor &self, const Indices &indices, const Tensor &given, bool accumulate, bool unsafe) {
  const auto fall_back = [&]() -> Tensor & {
    return call_fallback<at::_ops::_index_put_impl_>(self, indices, given, accumulate, unsafe);
  };
  const c10::ScalarType added =
      accumulate ? added_as(self.device().index(), self.scalar_type()) : c10::ScalarType::Undefined;
  if (!supported({&self}) || !supported({&given}) || (accumulate && added == c10::ScalarType::Undefined) ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes) // the CPU warns, and its order decides what remains
    return fall_back();
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  TORCH_CHECK(self.scalar_type() == given.scalar_type(), "Index put requires the source and destination dtypes match, ",
              "got ", self.scalar_type(), " for the destination and ", given.scalar_type(), " for the source.");
  if (!accumulate)
    if (const auto [masked, mask] = at::native::canDispatchToMaskedFill(self, indices, given); masked)
      return self.masked_fill_(mask, given.item());
  at::assert_no_overlap(self, given);
  Tensor values = given.device() != self.device() && given.dim() == 0 ? given.to(self.device()) : given;
  common_device("aten::index_put_", {&self, &values});
  // Sums of 16 bits are made in a wider type.
  const Tensor total = accumulate ? self.to(added) : self;
  if (accumulate) values = values.to(added);
  const Indexing found = resolve(total, indices);
  if (!few_enough(found)) return fall_back();
  TORCH_CHECK(at::is_expandable_to(values.sizes(), found.shape), "shape mismatch: value tensor of shape ",
              values.sizes(), " cannot be broadcast to indexing result of shape ", found.shape);
  if (accumulate)
    launch_indexing("index_put_add", added, found, values.expand(found.shape));
  else
    put(total, found, values.expand(found.shape));
  return total.is_same(self) ? self : self.copy_(total);
}

// ---- indices into the flat tensor -----------------------------------------------------------------------------------

Tensor &take_out(const Tensor &self, const Tensor &index, Tensor &out) {
  if (!supported({&self, &index, &out})) return call_fallback<at::_ops::take_out>(self, index, out);
  TORCH_CHECK(index.scalar_type() == c10::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "take(): self and out expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and out.dtype = ", out.scalar_type());
  common_device("aten::take", {&self, &index, &out});
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  at::native::resize_output(out, index.sizes());
  Indices indices;
  indices.push_back(index);
  return out.copy_(jit::index(contiguous(self).view({-1}), indices));
}
Tensor take(const Tensor &self, const Tensor &index) {
  if (!supported({&self, &index})) return call_fallback<at::_ops::take>(self, index);
  Tensor out = empty(index.sizes(), {}, self.scalar_type(), device_number(self));
  return take_out(self, index, out);
}

Tensor &put_flat(Tensor &self, const Tensor &index, const Tensor &source, bool accumulate) {
  if (!supported({&self, &index, &source}) ||
      (accumulate && added_as(self.device().index(), self.scalar_type()) == c10::ScalarType::Undefined))
    return call_fallback<at::_ops::put_>(self, index, source, accumulate);
  TORCH_CHECK(index.scalar_type() == c10::kLong, "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and source.dtype = ", source.scalar_type());
  TORCH_CHECK_INDEX(source.numel() == index.numel(),
                    "put_(): Expected source and index to have the same number of elements, ",
                    "but got source.numel() = ", source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "put_(): tried to put elements into an empty tensor");
  const Tensor whole = contiguous(self);
  Tensor flat = whole.view({-1});
  Indices indices;
  indices.push_back(index.reshape({-1}));
  index_put(flat, indices, source.reshape({-1}), accumulate, false);
  return whole.is_same(self) ? self : self.copy_(whole);
}

} // namespace

void register_advanced_indexing(torch::Library &aten) {
  aten.impl("index.Tensor", &jit::index);
  aten.impl("index.Tensor_out", &index_out);
  aten.impl("_index_put_impl_", &index_put);
  aten.impl("take", &jit::take);
  aten.impl("take.out", &jit::take_out);
  aten.impl("put_", &put_flat);
}

} // namespace tb::ops::jit

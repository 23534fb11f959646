// Bags of embeddings: sums, means and maxima of rows of a table, and their gradients.
#include <ATen/Context.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/_embedding_bag_dense_backward_native.h>
#include <ATen/ops/_embedding_bag_forward_only_native.h>
#include <ATen/ops/_embedding_bag_native.h>
#include <ATen/ops/_embedding_bag_per_sample_weights_backward_native.h>

#include "backends/host/host.h"
#include "backends/host/indexing/index_bounds.h"
#include "tensor/outputs.h"

namespace tb::ops::host {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

enum Mode : int64_t { mode_sum, mode_mean, mode_max }; // PyTorch's numbers

void check_bags(const Tensor &weight, const Tensor &indices, const Tensor &offsets, int64_t mode,
                const OptionalTensor &sample_weights, bool last_offset) {
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices.dim());
  if (indices.dim() == 1)
    TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  const at::TensorArg weight_argument(weight, "weight", 1);
  if (const c10::ScalarType type = c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
      type != c10::kLong && type != c10::kInt) { // as the kernel converts them
    at::checkScalarTypes("embedding_bag", at::TensorArg(indices, "indices", 1), {c10::kLong, c10::kInt});
    at::checkScalarTypes("embedding_bag", at::TensorArg(offsets, "offsets", 1), {c10::kLong, c10::kInt});
  }
  at::checkScalarTypes("embedding_bag", weight_argument, {c10::kHalf, c10::kBFloat16, c10::kFloat, c10::kDouble});
  if (sample_weights && sample_weights->defined()) {
    TORCH_CHECK(mode == mode_sum, "embedding_bag: per_sample_weights only supported with mode='sum'");
    at::checkSameType("embedding_bag", weight_argument, at::TensorArg(*sample_weights, "per_sample_weights", 1));
    TORCH_CHECK(sample_weights->dim() == 1 && sample_weights->numel() == indices.numel(),
                "embedding_bag: per_sample_weights must be one number per index, ", indices.numel(),
                ", but have shape ", sample_weights->sizes());
  }
  TORCH_CHECK(!last_offset || offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
}

// Whether the CPU leaves the table from indices to bags empty, as its fast sum does, which needs none.
bool without_table(const Tensor &weight, int64_t mode, int64_t padding) {
  return mode == mode_sum && weight.scalar_type() != c10::kDouble && weight.stride(1) == 1 && padding < 0;
}

using Forward = Four(const Tensor &, const Tensor &, const Tensor &, bool, int64_t, bool, const OptionalTensor &, bool,
                     int64_t);

template <Forward *function> void forward_kernel(const Tensor &weight, const Tensor &indices, const Tensor &offsets,
                                                 int64_t mode, const OptionalTensor &sample_weights, bool last_offset,
                                                 int64_t padding, Tensor &out, Tensor &table, Tensor &sizes,
                                                 Tensor &maxima) {
  const Four found = function(weight, indices, offsets, false, mode, false, sample_weights, last_offset, padding);
  copy_result(out, std::get<0>(found));
  copy_result(table, std::get<1>(found));
  copy_result(sizes, std::get<2>(found));
  copy_result(maxima, std::get<3>(found));
}

// Returns the bags, the bag of each index, the sizes of the bags, and the rows where the maxima were found.
template <Name name, Forward *function, bool for_backward>
Four forward(const Tensor &weight, const Tensor &indices, const Tensor &offsets, bool, int64_t mode, bool,
             const OptionalTensor &sample_weights, bool last_offset, int64_t padding) {
  check_bags(weight, indices, offsets, mode, sample_weights, last_offset);
  const c10::DeviceIndex device =
      common_device(name.value, {&weight, &indices, &offsets, &value_or_undefined(sample_weights)});
  const c10::ScalarType type = c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  const int64_t bags = offsets.size(0) - (last_offset ? 1 : 0), width = weight.size(1);
  const int64_t counted = for_backward || mode != mode_sum ? bags : offsets.size(0);
  Tensor out = empty_on(weight, {bags, width}, weight.scalar_type());
  Tensor table = empty_on(weight, {without_table(weight, mode, padding) ? 0 : indices.size(0)}, type);
  Tensor sizes = empty_on(weight, {counted}, type);
  Tensor maxima = mode == mode_max ? empty_on(weight, {bags, width}, type) : empty_on(weight, {counted}, type);
  launch_kernel<name, forward_kernel<function>>(device, weight, indices, offsets, mode, sample_weights, last_offset,
                                                padding, out, table, sizes, maxima);
  return {std::move(out), std::move(table), std::move(sizes), std::move(maxima)};
}

// In mode max the kernels check what they read.
void check_rows(const Tensor &grad, const Tensor &indices, const Tensor &table, int64_t rows, int64_t mode) {
  if (mode == mode_max) return;
  check_bounds(indices, rows, "embedding_bag_backward");
  check_bounds(table, grad.size(0), "embedding_bag_backward");
}

void backward_kernel(const Tensor &grad, const Tensor &indices, const Tensor &offsets, const Tensor &table,
                     const Tensor &sizes, const Tensor &maxima, int64_t rows, bool by_frequency, int64_t mode,
                     const OptionalTensor &sample_weights, int64_t padding, Tensor &out) {
  check_rows(grad, indices, table, rows, mode);
  copy_result(out, at::native::_embedding_bag_backward_symint(grad, indices, offsets, table, sizes, maxima, rows,
                                                              by_frequency, mode, false, sample_weights, padding));
}

Tensor backward(const Tensor &grad, const Tensor &indices, const Tensor &offsets, const Tensor &table,
                const Tensor &sizes, const Tensor &maxima, c10::SymInt rows, bool by_frequency, int64_t mode,
                bool sparse, const OptionalTensor &sample_weights, int64_t padding) {
  if (sparse) // PyTorch's own function calls other operators only
    return at::native::_embedding_bag_backward_symint(grad, indices, offsets, table, sizes, maxima, std::move(rows),
                                                      by_frequency, mode, true, sample_weights, padding);
  const c10::DeviceIndex device =
      common_device("aten::_embedding_bag_backward",
                    {&grad, &indices, &offsets, &table, &sizes, &maxima, &value_or_undefined(sample_weights)});
  const int64_t count = rows.expect_int();
  Tensor out = empty_on(grad, {count, grad.size(1)}, grad.scalar_type());
  launch_kernel<"aten::_embedding_bag_backward", backward_kernel>(
      device, grad, indices, offsets, table, sizes, maxima, count, by_frequency, mode, sample_weights, padding, out);
  return out;
}

void dense_backward_kernel(const Tensor &grad, const Tensor &indices, const Tensor &table, const Tensor &sizes,
                           const Tensor &maxima, int64_t rows, bool by_frequency, int64_t mode,
                           const OptionalTensor &sample_weights, int64_t padding, Tensor &out) {
  check_rows(grad, indices, table, rows, mode);
  copy_result(out, at::native::_embedding_bag_dense_backward_cpu(grad, indices, table, sizes, maxima, rows,
                                                                 by_frequency, mode, sample_weights, padding));
}

void sample_weights_backward_kernel(const Tensor &grad, const Tensor &weight, const Tensor &indices,
                                    const Tensor &offsets, const Tensor &table, int64_t mode, int64_t padding,
                                    Tensor &out) {
  check_rows(grad, indices, table, weight.size(0), mode);
  copy_result(out, at::native::_embedding_bag_per_sample_weights_backward_cpu(grad, weight, indices, offsets, table,
                                                                              mode, padding));
}

Tensor dense_backward(const Tensor &grad, const Tensor &indices, const Tensor &table, const Tensor &sizes,
                      const Tensor &maxima, int64_t rows, bool by_frequency, int64_t mode,
                      const OptionalTensor &sample_weights, int64_t padding) {
  const c10::DeviceIndex device =
      common_device("aten::_embedding_bag_dense_backward",
                    {&grad, &indices, &table, &sizes, &maxima, &value_or_undefined(sample_weights)});
  Tensor out = empty_on(grad, {rows, grad.size(1)}, grad.scalar_type());
  launch_kernel<"aten::_embedding_bag_dense_backward", dense_backward_kernel>(
      device, grad, indices, table, sizes, maxima, rows, by_frequency, mode, sample_weights, padding, out);
  return out;
}

Tensor sample_weights_backward(const Tensor &grad, const Tensor &weight, const Tensor &indices, const Tensor &offsets,
                               const Tensor &table, int64_t mode, int64_t padding) {
  TORCH_CHECK(mode == mode_sum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const c10::DeviceIndex device =
      common_device("aten::_embedding_bag_per_sample_weights_backward", {&grad, &weight, &indices, &offsets, &table});
  Tensor out = empty_on(grad, {indices.size(0)}, grad.scalar_type());
  launch_kernel<"aten::_embedding_bag_per_sample_weights_backward", sample_weights_backward_kernel>(
      device, grad, weight, indices, offsets, table, mode, padding, out);
  return out;
}

} // namespace

void register_embedding_bag(torch::Library &aten) {
  aten.impl("_embedding_bag", &forward<"aten::_embedding_bag", at::native::_embedding_bag_cpu, true>);
  aten.impl("_embedding_bag_forward_only",
            &forward<"aten::_embedding_bag", at::native::_embedding_bag_forward_only_cpu, false>);
  aten.impl("_embedding_bag_backward", &backward);
  aten.impl("_embedding_bag_dense_backward", &dense_backward);
  aten.impl("_embedding_bag_per_sample_weights_backward", &sample_weights_backward);
}

} // namespace tb::ops::host

// Matrix products, and the choice of how attention is computed.
#include "backends/jit/device_facts.h"
#include "backends/jit/device_kernel.h"
#include "backends/jit/jit.h"
#include "backends/jit/pointwise.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/addr_ops.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/sum_ops.h>

namespace tb::ops::jit {
namespace {

using at::Tensor;

// Writes the strides of the last three dimensions to `to`, 0 for a missing dimension.
void take_strides(kernels::Long *to, const Tensor &tensor) {
  for (int64_t i = 0; i < 3; i++) to[i] = i + tensor.dim() >= 3 ? tensor.stride(i + tensor.dim() - 3) : 0;
}

bool fits(std::initializer_list<const Tensor *> tensors) {
  const c10::ScalarType type = (*tensors.begin())->scalar_type();
  for (const Tensor *tensor : tensors)
    if (tensor->scalar_type() != type) return false;
  return supported(tensors) && type != c10::kBool;
}

// Whether elements of an output share memory: then the result is that of the CPU's order.
bool overlaps(const Tensor &out) { return at::has_internal_overlap(out) == at::MemOverlap::Yes; }

// Computes out = alpha * first @ second + beta * added for tensors of two or three dimensions. `added` is broadcast to
// `out`, or undefined.
void multiply(const Tensor &first, const Tensor &second, const Tensor &added, const c10::Scalar &beta,
              const c10::Scalar &alpha, const Tensor &out) {
  if (out.numel() == 0) return;
  // Where there is a product, the CPU converts the numbers to the type in which it computes.
  const c10::ScalarType computed = c10::isReducedFloatingType(out.scalar_type()) ? c10::kFloat : out.scalar_type();
  if (first.size(-1) > 0)
    for (const c10::Scalar &number : {alpha, beta}) check_number(number, computed);
  kernels::MatmulArguments arguments{};
  arguments.batch = out.dim() == 3 ? out.size(0) : 1;
  arguments.rows = out.size(-2), arguments.columns = out.size(-1), arguments.depth = first.size(-1);
  arguments.first = first.const_data_ptr(), arguments.second = second.const_data_ptr();
  arguments.output = out.mutable_data_ptr();
  take_strides(arguments.first_strides, first);
  take_strides(arguments.second_strides, second);
  take_strides(arguments.output_strides, out);
  arguments.alpha = scalar_of(alpha), arguments.beta = scalar_of(beta);
  // If beta is 0, `added` is not read, so that a NaN in it does not reach the result.
  if (added.defined() && beta.toDouble() != 0) {
    const Tensor broadcast = added.expand(out.sizes());
    arguments.added = broadcast.const_data_ptr();
    take_strides(arguments.added_strides, broadcast);
  }
  const auto tiles = [&](int64_t height, int64_t width) {
    return arguments.batch * ((arguments.rows + height - 1) / height) * ((arguments.columns + width - 1) / width);
  };
  const c10::DeviceIndex device = device_number(out);
  arguments.vector_size = facts_of(device).vector_size;
  if (arguments.vector_size)
    launch_tiles(device, {"matmul_vectors.cuh", instance("matmul_vectors", out.scalar_type()), "MatmulArguments", 1},
                 tiles(96, out.element_size() == 8 ? 32 : 64), arguments); // the sizes of vector_tile.cuh
  else
    launch_tiles(device, {"matmul.cuh", instance("matmul", out.scalar_type()), "MatmulArguments", 256, true},
                 tiles(32, 32), arguments); // the smallest tile of any shim
}

Tensor &mm(const Tensor &self, const Tensor &other, Tensor &out) {
  if (!fits({&self, &other, &out})) return call_fallback<at::_ops::mm_out>(self, other, out);
  Out<at::meta::structured_mm> op(out);
  op.meta(self, other);
  multiply(self, other, {}, 0, 1, out);
  return out;
}

Tensor &addmm(const Tensor &self, const Tensor &first, const Tensor &second, const c10::Scalar &beta,
              const c10::Scalar &alpha, Tensor &out) {
  if (!fits({&self, &first, &second, &out}) || overlaps(out))
    return call_fallback<at::_ops::addmm_out>(self, first, second, beta, alpha, out);
  Out<at::meta::structured_addmm> op(out);
  op.meta(self, first, second, beta, alpha);
  multiply(first, second, self, beta, alpha, out);
  return out;
}

Tensor &bmm(const Tensor &self, const Tensor &other, Tensor &out) {
  if (!fits({&self, &other, &out})) return call_fallback<at::_ops::bmm_out>(self, other, out);
  Out<at::meta::structured_bmm> op(out);
  op.meta(self, other);
  multiply(self, other, {}, 0, 1, out);
  return out;
}

Tensor &baddbmm(const Tensor &self, const Tensor &first, const Tensor &second, const c10::Scalar &beta,
                const c10::Scalar &alpha, Tensor &out) {
  if (!fits({&self, &first, &second, &out}) || overlaps(out))
    return call_fallback<at::_ops::baddbmm_out>(self, first, second, beta, alpha, out);
  Out<at::meta::structured_baddbmm> op(out);
  op.meta(self, first, second, beta, alpha);
  multiply(first, second, self, beta, alpha, out);
  return out;
}

Tensor &addmv(const Tensor &self, const Tensor &matrix, const Tensor &vector, const c10::Scalar &beta,
              const c10::Scalar &alpha, Tensor &out) {
  if (!fits({&self, &matrix, &vector, &out}) || overlaps(out))
    return call_fallback<at::_ops::addmv_out>(self, matrix, vector, beta, alpha, out);
  Out<at::meta::structured_addmv> op(out);
  op.meta(self, matrix, vector, beta, alpha);
  const Tensor added = self.expand(out.sizes()).unsqueeze(-1);
  multiply(matrix, vector.unsqueeze(-1), added, beta, alpha, out.unsqueeze(-1));
  return out;
}

Tensor dot(const Tensor &self, const Tensor &other) {
  if (!fits({&self, &other})) return call_fallback<at::_ops::dot>(self, other);
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1 && self.numel() == other.numel(),
              "dot takes two vectors of one length, but got ", self.sizes(), " and ", other.sizes());
  return at::_ops::sum::call(at::_ops::mul_Tensor::call(self, other), self.scalar_type());
}

// PyTorch's composition takes complex numbers and results of more dimensions, which the CPU's kernel refuses.
Tensor addr(const Tensor &self, const Tensor &first, const Tensor &second, const c10::Scalar &beta,
            const c10::Scalar &alpha) {
  if (beta.isComplex() || alpha.isComplex() || self.dim() > 2)
    return call_fallback<at::_ops::addr>(self, first, second, beta, alpha);
  return at::native::math_addr(self, first, second, beta, alpha);
}

// The composition would copy to out= on any device.
Tensor &addr_out(const Tensor &self, const Tensor &first, const Tensor &second, const c10::Scalar &beta,
                 const c10::Scalar &alpha, Tensor &out) {
  if (!supported({&self, &first, &second, &out}))
    return call_fallback<at::_ops::addr_out>(self, first, second, beta, alpha, out);
  return at::native::math_addr_out(self, first, second, beta, alpha, out);
}

// PyTorch's composition of matrix products and a softmax computes attention.
int64_t choose_attention(const Tensor &, const Tensor &, const Tensor &, const std::optional<Tensor> &, double, bool,
                         std::optional<double>, bool) {
  return static_cast<int64_t>(at::SDPBackend::math);
}

} // namespace

void register_matmul(torch::Library &aten) {
  aten.impl("mm.out", &mm);
  aten.impl("addmm.out", &addmm);
  aten.impl("bmm.out", &bmm);
  aten.impl("baddbmm.out", &baddbmm);
  aten.impl("addmv.out", &addmv);
  aten.impl("addr", &addr);
  aten.impl("addr.out", &jit::addr_out);
  aten.impl("dot", &dot);
  aten.impl("_fused_sdp_choice", &choose_attention);
}

} // namespace tb::ops::jit

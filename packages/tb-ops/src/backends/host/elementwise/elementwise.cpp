// Elementwise operators that PyTorch's code generator does not generate: PyTorch's own bodies (routes.yaml) run on the
// calling thread and end in these entries of the dispatch stubs. And some that it does, divided among threads.
#include "backends/host/iterator_stub.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/atan2_cpu_dispatch.h>
#include <ATen/ops/isin_ops.h>
#include <ATen/ops/pow_cpu_dispatch.h>

#include "backends/host/elementwise/divided.h"
#include "backends/host/host.h"
#include "backends/host/overrides.h"

namespace tb::ops::host {
namespace cpu {

void atan2_outf(const at::Tensor &self, const at::Tensor &other, at::Tensor &out) {
  const auto run = [](at::Tensor &to, const at::Tensor &y, const at::Tensor &x) { at::cpu::atan2_outf(y, x, to); };
  in_parts(1.5, run, out, self, other);
}

void pow_outf(const at::Tensor &self, const at::Scalar &exponent, at::Tensor &out) {
  in_parts(2, [&](at::Tensor &to, const at::Tensor &from) { at::cpu::pow_outf(from, exponent, to); }, out, self);
}

void pow_outf(const at::Scalar &self, const at::Tensor &exponent, at::Tensor &out) {
  in_parts(2, [&](at::Tensor &to, const at::Tensor &from) { at::cpu::pow_outf(self, from, to); }, out, exponent);
}

void pow_outf(const at::Tensor &self, const at::Tensor &exponent, at::Tensor &out) {
  const auto run = [](at::Tensor &to, const at::Tensor &base, const at::Tensor &by) {
    at::cpu::pow_outf(base, by, to);
  };
  in_parts(2, run, out, self, exponent);
}

} // namespace cpu

namespace {

// PyTorch's kernel makes a tensor of the number and resizes the output, which is impossible with an alias.
at::Tensor isin(const at::Scalar &element, const at::Tensor &tests, bool assume_unique, bool invert) {
  return at::_ops::isin_Tensor_Tensor::call(at::native::wrapped_scalar_tensor(element, tests.device()), tests,
                                            assume_unique, invert);
}

at::Tensor &isin_out(const at::Scalar &element, const at::Tensor &tests, bool assume_unique, bool invert,
                     at::Tensor &out) {
  return at::_ops::isin_Tensor_Tensor_out::call(at::native::wrapped_scalar_tensor(element, tests.device()), tests,
                                                assume_unique, invert, out);
}

} // namespace

void register_elementwise(torch::Library &aten) {
  aten.impl("isin.Scalar_Tensor", &isin);
  aten.impl("isin.Scalar_Tensor_out", &isin_out);
  enter_stub<"aten::abs", at::native::abs_stub>();
  enter_stub<"aten::addr", at::native::addr_stub, Types::promote_all>();
  enter_stub<"aten::angle", at::native::angle_stub, Types::promote_all>();
  enter_stub<"aten::conj_physical", at::native::conj_physical_stub>();
  enter_stub<"aten::logical_not", at::native::logical_not_stub>();
  enter_stub<"aten::logical_and", at::native::logical_and_stub, Types::compare>();
  enter_stub<"aten::logical_or", at::native::logical_or_stub, Types::compare>();
  enter_stub<"aten::logical_xor", at::native::logical_xor_stub, Types::compare>();
  enter_stub<"aten::complex", at::native::complex_stub>();
  enter_stub<"aten::polar", at::native::polar_stub>();
  enter_stub<"aten::nan_to_num", at::native::nan_to_num_stub>();
  enter_stub<"aten::logit", at::native::logit_stub, Types::promote_all>();
  enter_stub<"aten::frexp", at::native::frexp_stub>();
  enter_stub<"aten::where", at::native::where_kernel>();
  enter_stub<"aten::floor_divide", at::native::div_floor_stub, Types::promote_all>();
}

} // namespace tb::ops::host

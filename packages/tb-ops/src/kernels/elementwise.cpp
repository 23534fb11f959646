// Element-wise operators that PyTorch does not generate: its own bodies run on the calling thread and end in our
// entries of the dispatch stubs.
#include "kernels/iterator_stub.h"

#include <ATen/native/BinaryOps.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/abs_native.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/angle_native.h>
#include <ATen/ops/complex_native.h>
#include <ATen/ops/conj_physical_native.h>
#include <ATen/ops/floor_divide_native.h>
#include <ATen/ops/frexp_native.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/logical_and_native.h>
#include <ATen/ops/logical_not_native.h>
#include <ATen/ops/logical_or_native.h>
#include <ATen/ops/logical_xor_native.h>
#include <ATen/ops/logit_native.h>
#include <ATen/ops/mvlgamma_native.h>
#include <ATen/ops/nan_to_num_native.h>
#include <ATen/ops/polar_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/rsub_native.h>
#include <ATen/ops/where_native.h>

#include "kernels/kernels.h"
#include "kernels/output.h"

namespace tb {
namespace {

using at::Tensor, c10::Scalar;

void enter_stubs() {
  enter_stub<"aten::abs", at::native::abs_stub>();
  enter_stub<"aten::angle", at::native::angle_stub, Types::promote_all>();
  enter_stub<"aten::conj_physical", at::native::conj_physical_stub>();
  enter_stub<"aten::logical_not", at::native::logical_not_stub>();
  enter_stub<"aten::logical_and", at::native::logical_and_stub, Types::comparison>();
  enter_stub<"aten::logical_or", at::native::logical_or_stub, Types::comparison>();
  enter_stub<"aten::logical_xor", at::native::logical_xor_stub, Types::comparison>();
  enter_stub<"aten::complex", at::native::complex_stub>();
  enter_stub<"aten::polar", at::native::polar_stub>();
  enter_stub<"aten::nan_to_num", at::native::nan_to_num_stub>();
  enter_stub<"aten::logit", at::native::logit_stub, Types::promote_all>();
  enter_stub<"aten::frexp", at::native::frexp_stub>();
  enter_stub<"aten::where", at::native::where_kernel>();
  enter_stub<"aten::floor_divide", at::native::div_floor_stub, Types::promote_all>();
  enter_stub<"aten::addr", at::native::addr_stub, Types::promote_all>();
}

} // namespace

void register_elementwise(torch::Library &aten) {
  enter_stubs();
  using namespace at::native;
  aten.impl("abs.out", TORCH_FN(abs_out));
  aten.impl("addr", TORCH_FN(addr));
  aten.impl("addr.out", TORCH_FN(addr_out));
  aten.impl("angle", TORCH_FN(angle));
  aten.impl("angle.out", TORCH_FN(angle_out));
  aten.impl("conj_physical.out", TORCH_FN(conj_physical_out));
  aten.impl("logical_not.out", TORCH_FN(logical_not_out));
  aten.impl("logical_and.out",
            TORCH_FN((overload<Tensor &(const Tensor &, const Tensor &, Tensor &)>(logical_and_out))));
  aten.impl("logical_or.out", TORCH_FN((overload<Tensor &(const Tensor &, const Tensor &, Tensor &)>(logical_or_out))));
  aten.impl("logical_xor.out",
            TORCH_FN((overload<Tensor &(const Tensor &, const Tensor &, Tensor &)>(logical_xor_out))));
  aten.impl("complex.out", TORCH_FN(complex_out));
  aten.impl("polar.out", TORCH_FN(polar_out));
  aten.impl("nan_to_num.out", TORCH_FN(nan_to_num_out));
  aten.impl("logit", TORCH_FN(logit));
  aten.impl("logit_", TORCH_FN(logit_));
  aten.impl("logit.out", TORCH_FN(logit_out));
  aten.impl("frexp.Tensor_out", TORCH_FN(frexp_out));
  aten.impl("mvlgamma.out", TORCH_FN(mvlgamma_out));
  aten.impl("isnan", TORCH_FN(at::native::isnan));
  aten.impl("rsub.Tensor", TORCH_FN((overload<Tensor(const Tensor &, const Tensor &, const Scalar &)>(rsub))));
  aten.impl("remainder.Scalar_Tensor",
            TORCH_FN((overload<Tensor(const Scalar &, const Tensor &)>(at::native::remainder))));
  aten.impl("where.self", TORCH_FN((overload<Tensor(const Tensor &, const Tensor &, const Tensor &)>(where))));
  aten.impl("where.self_out", TORCH_FN(where_self_out));
  aten.impl("floor_divide", TORCH_FN((overload<Tensor(const Tensor &, const Tensor &)>(floor_divide))));
  aten.impl("floor_divide_.Tensor", TORCH_FN((overload<Tensor &(Tensor &, const Tensor &)>(floor_divide_))));
  aten.impl("floor_divide.out",
            TORCH_FN((overload<Tensor &(const Tensor &, const Tensor &, Tensor &)>(floor_divide_out))));
}

} // namespace tb

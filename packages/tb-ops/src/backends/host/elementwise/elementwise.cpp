// Elementwise operators that PyTorch's code generator does not generate. PyTorch's own bodies (routes.yaml) run on the
// calling thread and end in these entries of the dispatch stubs.
#include "backends/host/iterator_stub.h"

#include <ATen/native/BinaryOps.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>

#include "backends/host/host.h"

namespace tb::ops::host {

void register_elementwise(torch::Library &) {
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

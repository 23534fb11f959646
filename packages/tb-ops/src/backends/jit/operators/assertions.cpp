// Assertions about numbers that the device computes.
#include <ATen/ops/_assert_async_ops.h>

#include "backends/jit/device_kernel.h"
#include "backends/jit/element_type.h"
#include "backends/jit/jit.h"

namespace tb::ops::jit {
namespace {

using at::Tensor;

static_assert(int{kernels::index_out_of_range} == int{TB_OUT_OF_RANGE} &&
              int{kernels::invalid_value} == int{TB_FAILED_PRECONDITION});

// The device checks the number when its stream reaches the kernel; the next synchronisation raises the error.
void assert_async(const Tensor &self) {
  TORCH_CHECK(self.numel() == 1, "torch._assert_async wants a tensor with one element, but got ", self.numel());
  if (!supported({&self})) return call_fallback<at::_ops::_assert_async>(self);
  const kernels::AssertionArguments arguments{operand_of(self)};
  launch_elements(device_number(self), {"rows.cuh", instance("assertion", self.scalar_type()), "AssertionArguments"}, 1,
                  arguments);
}
void assert_with_message(const Tensor &self, c10::string_view) { assert_async(self); }

} // namespace

void register_assertions(torch::Library &aten) {
  aten.impl("_assert_async", &assert_async);
  aten.impl("_assert_async.msg", &assert_with_message);
}

} // namespace tb::ops::jit

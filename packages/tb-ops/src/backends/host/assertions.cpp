// Assertions about values. The worker checks them when the stream reaches them; the next synchronisation raises the
// error.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_assert_async_native.h>

#include "backends/host/host.h"
#include "launch/launch.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

void assert_kernel(const Tensor &self) { at::native::_assert_async_cpu(self); }
void assert_message_kernel(const Tensor &self, std::string_view message) {
  at::native::_assert_async_msg_cpu(self, message);
}

void assert_async(const Tensor &self) {
  launch_kernel<"aten::_assert_async", assert_kernel>(device_number(self), self);
}
void assert_async_message(const Tensor &self, std::string_view message) {
  launch_kernel<"aten::_assert_async", assert_message_kernel>(device_number(self), self, message);
}

} // namespace

void register_assertions(torch::Library &aten) {
  aten.impl("_assert_async", &assert_async);
  aten.impl("_assert_async.msg", &assert_async_message);
}

} // namespace tb::ops::host

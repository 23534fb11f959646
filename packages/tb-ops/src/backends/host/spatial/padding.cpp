// Padding whose CPU kernels write the output in the input's memory format, which the meta functions do not return.
#include <ATen/ops/reflection_pad3d_cpu_dispatch.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/replication_pad2d_cpu_dispatch.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_cpu_dispatch.h>
#include <ATen/ops/replication_pad3d_meta.h>

#include "backends/host/spatial/padding.h"
#include "structured/structured.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

template <auto *cpu> void pad_kernel(const Tensor &self, at::IntArrayRef padding, Tensor &out) {
  cpu(self, padding, out);
}

// Sets the output's strides before the launch. If the CPU's kernel changed the strides of its alias, the output would
// be read in another order than it was written.
template <Name name, auto *cpu> void launch_pad(const Tensor &self, at::IntArrayRef padding, const Tensor &out) {
  const c10::DeviceIndex device = common_device(name.value, {&self, &out});
  out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
  launch_kernel<name, pad_kernel<cpu>>(device, self, padding, out);
}

template <Name name, class Meta, auto *cpu> Tensor pad(const Tensor &self, at::IntArrayRef padding) {
  Structured<Meta, Schema::functional, 1> op;
  op.meta(self, padding);
  launch_pad<name, cpu>(self, padding, op.output(0));
  return std::move(op.outputs[0]);
}

template <Name name, class Meta, auto *cpu> Tensor &pad_out(const Tensor &self, at::IntArrayRef padding, Tensor &out) {
  Structured<Meta, Schema::out, 1> op(out);
  op.meta(self, padding);
  launch_pad<name, cpu>(self, padding, out);
  return out;
}

template <Name name, class Meta, auto *cpu> void register_pad(torch::Library &aten) {
  aten.impl(name.value, &pad<name, Meta, cpu>);
  aten.impl(c10::str(name.value, ".out").c_str(), &pad_out<name, Meta, cpu>);
}

} // namespace

void register_padding(torch::Library &aten) {
  register_pad<"aten::reflection_pad3d", at::meta::structured_reflection_pad3d, at::cpu::reflection_pad3d_outf>(aten);
  register_pad<"aten::replication_pad2d", at::meta::structured_replication_pad2d, at::cpu::replication_pad2d_outf>(
      aten);
  register_pad<"aten::replication_pad3d", at::meta::structured_replication_pad3d, at::cpu::replication_pad3d_outf>(
      aten);
}

} // namespace tb::ops::host

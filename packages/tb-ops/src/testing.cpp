// The hooks' bindings; their documentation is in tb_ops/_testing.py.
#include "testing.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <vector>

#include "backends/aclnn/executor_cache.h"
#include "backends/host/attention/attention.h"
#include "backends/host/foreach/foreach_fusion.h"
#include "backends/host/gemm/gemm.h"
#include "backends/host/gemm/matmul_ops.h"
#include "intraop/affinity.h"
#include "tb/tensor_caster.h"
#include "tensor/output_donation.h"
#include "testing_microkernels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::ops {
namespace {

nb::list tried_gemms() {
  nb::list out;
  for (const auto &[shape, ours] : host::tried_gemms())
    out.append(nb::make_tuple(shape.count, shape.rows, shape.columns, shape.k, shape.left_transposed,
                              shape.right_transposed, shape.threads, ours));
  return out;
}

nb::list tried_attention() {
  nb::list out;
  for (const auto &[size, ours] : host::tried_attention())
    out.append(
        nb::make_tuple(size.batch, size.heads, size.queries, size.keys, size.width, size.causal, size.backward, ours));
  return out;
}

void donate(const std::vector<at::Tensor> &donated, const std::function<std::vector<at::Tensor>()> &make) {
  OutputDonation donation(donated);
  donation.collect(make());
}

} // namespace

void bind_testing(nb::module_ &core) {
  nb::module_ m = core.def_submodule("_testing");
  nb::delattr(core, "_testing");
  m.def("sgemm", &host::run_sgemm, "left"_a, "right"_a, "out"_a, "add"_a);
  bind_microkernels(m);
  m.def("tried_gemms", &tried_gemms);
  m.def("tried_attention", &tried_attention);
  m.def("donate", &donate, "donated"_a, "make"_a);
  m.def("donated_bytes", &donated_bytes);
  m.def("thread_starts", &thread_starts);
  m.def("fused_list_operations", &host::fused_list_operations);
  m.def("clear_aclnn_executors", [] { aclnn::executor_cache().clear(); }, nb::call_guard<nb::gil_scoped_release>());
}

} // namespace tb::ops

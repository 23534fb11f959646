// The extension tb_amp._testing: GradScaler's two operators as functions, so that tests call them on any device.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "scaler.h"
#include "tb/tensor_caster.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_testing, module) {
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  module.doc() = "What only the tests of tb_amp call.";
  module.def(
      "unscale_",
      [](const std::vector<at::Tensor> &gradients, at::Tensor found_inf, const at::Tensor &inv_scale) {
        const nb::gil_scoped_release release;
        tb::amp::unscale(gradients, found_inf, inv_scale);
      },
      "gradients"_a, "found_inf"_a, "inv_scale"_a, "aten::_amp_foreach_non_finite_check_and_unscale_");
  module.def(
      "update_scale_",
      [](at::Tensor scale, at::Tensor growth_tracker, const at::Tensor &found_inf, double growth_factor,
         double backoff_factor, int64_t growth_interval) {
        const nb::gil_scoped_release release;
        tb::amp::update_scale(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
      },
      "scale"_a, "growth_tracker"_a, "found_inf"_a, "growth_factor"_a, "backoff_factor"_a, "growth_interval"_a,
      "aten::_amp_update_scale_");
}

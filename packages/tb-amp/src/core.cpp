// The Python extension: the rules' names, registration, and the two operators for tests on any device.
#include <map>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "custom_rules.h"
#include "rules.h"
#include "scaler.h"
#include "tb/tensor_caster.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::map<std::string, std::vector<std::string>> rules() {
  std::map<std::string, std::vector<std::string>> by_policy;
  for (const tb::amp::Rule &rule : tb::amp::rules()) by_policy[rule.policy].push_back(rule.operation);
  return by_policy;
}

// Under Python's lock, so a plain flag does.
bool register_all() {
  static bool done = false;
  if (!done) tb::amp::check_no_rules();
  tb::amp::register_scaler();
  if (done) return false;
  tb::amp::register_rules();
  return done = true;
}

} // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  module.def("rules", rules, "Operators by policy, from the lists of ATen/autocast_mode.h.");
  module.def("register", register_all, "Registers rules and operators. Returns whether this call did it.");
  module.def("withdraw_scaler", tb::amp::withdraw_scaler, "Takes back the two operators that register() registered.");
  module.def("add_rule", tb::amp::add_rule, "operation"_a, "policy"_a,
             "Gives an operator of the program's own an autocast rule.");
  module.def("remove_rule", tb::amp::remove_rule, "operation"_a, "Takes back what add_rule() did.");
  module.def("custom_rules", tb::amp::custom_rules, "Policies by operator, as add_rule() gave them.");
  module.def(
      "unscale_",
      [](const std::vector<at::Tensor> &gradients, at::Tensor found_inf, const at::Tensor &inv_scale) {
        const nb::gil_scoped_release release;
        tb::amp::unscale(gradients, found_inf, inv_scale);
      },
      "gradients"_a, "found_inf"_a, "inv_scale"_a);
  module.def(
      "update_scale_",
      [](at::Tensor scale, at::Tensor growth_tracker, const at::Tensor &found_inf, double growth_factor,
         double backoff_factor, int64_t growth_interval) {
        const nb::gil_scoped_release release;
        tb::amp::update_scale(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
      },
      "scale"_a, "growth_tracker"_a, "found_inf"_a, "growth_factor"_a, "backoff_factor"_a, "growth_interval"_a);
}

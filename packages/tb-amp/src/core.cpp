// The extension tb_amp._core: the names of the rules, and registration.
#include <map>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "custom_rules.h"
#include "rules.h"
#include "scaler.h"
#include "tb/tensor_caster.h" // PyTorch's exceptions

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::map<std::string, std::vector<std::string>> rules() {
  std::map<std::string, std::vector<std::string>> by_policy;
  for (const tb::amp::Rule &rule : tb::amp::rules()) by_policy[rule.policy].push_back(rule.operation);
  return by_policy;
}

// The GIL is held, so a plain flag is enough.
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
  module.def("withdraw_scaler", tb::amp::withdraw_scaler, "Removes the two operators that register() registered.");
  module.def("add_rule", tb::amp::add_rule, "operation"_a, "policy"_a,
             "Adds an autocast rule for an operator that PyTorch's lists do not contain.");
  module.def("remove_rule", tb::amp::remove_rule, "operation"_a, "Removes a rule of add_rule().");
  module.def("custom_rules", tb::amp::custom_rules, "The policies of add_rule()'s rules by operator.");
}

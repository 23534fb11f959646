// Autocast rules for PrivateUse1 devices: those that PyTorch's header lists for all backends.
#pragma once
#include <string>
#include <vector>

namespace tb::amp {

struct Rule {
  const char *policy;    // at::autocast::CastPolicy, or "banned"
  std::string operation; // "conv_transpose2d.input": as in native_functions.yaml, without "aten::"
};

// All rules in the header's order.
std::vector<Rule> rules();

// Throws c10::Error if an operator has a rule for PrivateUse1 devices already.
void check_no_rules();
// Registers the rules with the dispatcher until the process ends.
void register_rules();

} // namespace tb::amp

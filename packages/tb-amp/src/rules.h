// Autocast rules for PrivateUse1 devices: those that PyTorch's own header lists for every backend.
#pragma once
#include <string>
#include <vector>

namespace tb::amp {

struct Rule {
  const char *policy;    // at::autocast::CastPolicy, or "banned"
  std::string operation; // "conv_transpose2d.input": as in native_functions.yaml, without "aten::"
};

// In the header's order.
std::vector<Rule> rules();

// c10::Error where an operator has a rule for PrivateUse1 devices already.
void check_no_rules();
// Registers them with the dispatcher, for ever.
void register_rules();

} // namespace tb::amp

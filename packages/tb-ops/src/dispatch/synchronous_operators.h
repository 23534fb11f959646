// The native operators that wait for the device.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tb::ops {

// Returns pairs (operator, reason), for the coverage listing.
std::vector<std::pair<std::string, std::string>> synchronous_operators();

} // namespace tb::ops

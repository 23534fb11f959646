// configuration.h -- the variable TB_ALLOC_CONF, in PyTorch's syntax: key:value,key:value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tb::allocator {

struct Configuration {
  std::optional<bool> expandable_segments; // pages that move, or segments that do not; not set: depends on the device
  double per_process_memory_fraction = 1;  // of the device's memory, at most
  double slack = 1.0 / 128;                // pages_slack: of the most bytes in use, before pages move
  double pinned_slack = 0.05;              // part of the most pinned bytes in use, before idle segments are released
  uint64_t history = 1 << 16;              // events remembered
  std::string ignored;                     // keys of PyTorch's that have no meaning here, "a, b"
};

// NULL and "" are the defaults. Returns what is wrong with an unknown key or a bad value, and how it should read; "" on
// success.
std::string parse_configuration(const char *text, Configuration *out);

} // namespace tb::allocator

// Operators without a kernel of ours run on the CPU, visibly: each call is counted in the ledger.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <torch/library.h>

namespace tb {

enum class FallbackMode { allow, warn, error };

struct FallbackEntry {
  std::string name; // "aten::nonzero", with the overload: "aten::std.correction"
  uint64_t calls;
  double seconds; // wall time, waiting for the stream included
};

// Most time first. Safe from any thread.
std::vector<FallbackEntry> fallbacks();
void reset_fallbacks();
void set_fallback_mode(FallbackMode mode);
FallbackMode fallback_mode();

// Operators that wait by their nature, since the size of the result depends on the data: the CPU kernel on
// aliases is their native kernel, and no entry in the ledger. Only where the host may touch device memory.
void register_waiting(torch::Library &aten);

} // namespace tb

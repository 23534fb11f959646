// Operators without a kernel of ours run on the CPU, visibly: each call is counted in the ledger.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

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

} // namespace tb

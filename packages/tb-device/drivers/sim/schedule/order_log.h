// The order in which streams ran, as a text that can be replayed.
//
// Tokens are separated by spaces: "+N" says that N calls of the driver went by, "S" that stream S ran an operation,
// "SxN" that it ran N in a row. Streams are numbered as they are created, the devices' default streams first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tb::drivers::sim {

class OrderLog {
public:
  // Operations of one stream in a row, chosen during one call.
  struct Run {
    uint64_t call;
    uint32_t stream, count;
  };

  void add(uint64_t call, uint32_t stream);
  std::string text() const;
  // False: the text is no schedule.
  static bool parse(const std::string &text, std::vector<Run> *out);

private:
  static constexpr size_t most_entries = size_t(1) << 19; // runs; 8 MiB
  std::vector<Run> runs_;
  bool cut_ = false;
};

} // namespace tb::drivers::sim

// The sim driver's options, read once at open. sim_driver.h describes them.
#pragma once

#include <cstdint>
#include <string>

#include "tb/driver.h"

namespace tb::drivers::sim {

struct Options {
  static constexpr uint64_t maximum_devices = 8;
  static constexpr uint64_t least_capacity = uint64_t(64) << 10, largest_capacity = uint64_t(256) << 30;

  int32_t devices = 2; // unless torchrun says how many processes there are
  uint64_t capacity = uint64_t(256) << 20;
  uint64_t latency = 0;   // microseconds for each operation
  uint64_t bandwidth = 0; // bytes per second; 0 is no limit
  uint64_t seed = 1;
  std::string schedule;
  std::string architecture; // what the devices call theirs; empty: the processor's
  bool isolated = true;
  bool fault_text = true;
  uint64_t lose_after = 0;                                    // 0 is never
  uint64_t idle = 50;                                         // milliseconds
  uint32_t max_argument_size = 0, lacks = 0, vector_size = 0; // facts of tb_device_info
  bool named_pointers = false;
};

// A bad value is TB_INVALID_ARGUMENT with a text, and leaves `out` alone.
tb_status read_options(const tb_host *host, Options *out);

} // namespace tb::drivers::sim

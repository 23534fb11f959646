// The driver's options, read once at open.
#pragma once

#include <cstdint>

#include "tb/driver.h"

namespace tb::drivers::cpu {

struct Options {
  static constexpr uint64_t maximum_devices = 64; // access rights are bits of one word
  static constexpr uint64_t maximum_spin = 1000000;

  int32_t devices = 1; // unless torchrun says how many processes there are
  uint64_t memory = 0; // bytes for each device
  uint64_t available =
      0; // of them, at open: the rest is what other programs used by then. All, where `memory` was given.
  // Pauses that an idle worker spins before it sleeps, some 36 us: longer than the host takes from one operator to the
  // next, so that a commit rarely has to wake it. A waiter spins as long: a program that reads a number in each step
  // waits for a few short kernels, and a wake-up would take longer than they do. Spins of 20,000 and more make whole
  // training steps slow at random, since a spinning waiter takes a processor from the very work it waits for.
  uint32_t spin = 1000;
};

// Reads "devices", "memory" and "spin"; a bad value is TB_INVALID_ARGUMENT and leaves `out` alone.
tb_status read_options(const tb_host *host, Options *out);

} // namespace tb::drivers::cpu

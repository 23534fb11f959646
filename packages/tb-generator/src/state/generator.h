// Generators: a seed and an offset, both of 64 bits, that many threads may use at once.
#pragma once
#include <cstdint>

#include "fill.h"

// The opaque type of tb/component.h. `state` is guarded by the one lock of generator.cpp.
struct tb_generator {
  tb::generator::State state;
  bool capturing = false;
  tb::generator::State kept{}; // while capturing: where the sequence stands
};

namespace tb::generator {

// What PyTorch's generators start with (c10::default_rng_seed_val).
constexpr uint64_t default_seed = 67280421310721u;
// Beyond what any machine has: catches a wrong number before a driver is open to ask.
constexpr int32_t most_devices = 4096;

State get_state(const tb_generator &generator);
void set_state(tb_generator &generator, State state);
// The state before; the offset moves on by ceil(words / 4), modulo 2^64.
State reserve(tb_generator &generator, uint64_t words);

// See tb_generator_table in tb/component.h. Refusal TB_FAILED_PRECONDITION.
void capture_begin(tb_generator &generator);
uint64_t capture_end(tb_generator &generator);
bool is_capturing(const tb_generator &generator);

// The device's own, never destroyed. Refusal TB_OUT_OF_RANGE where `device` is not in 0 <= device < device_count.
tb_generator &default_generator(int32_t device, int32_t device_count);
// Seeds the default generators, also those made later, and sets their offsets to 0; within a capture, only until its end.
void seed_all(uint64_t seed);

} // namespace tb::generator

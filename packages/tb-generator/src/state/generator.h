// Generators: a state that many threads may use at once.
#pragma once
#include <cstdint>

#include "fill/fill.h"

// The opaque type of tb/component.h. `state` is guarded by the one lock of generator.cpp.
struct tb_generator {
  tb::generator::State state;
  bool capturing = false;
  tb::generator::State kept{}; // while capturing: the state that capture_end() restores
};

namespace tb::generator {

// The seed that PyTorch's generators start with (c10::default_rng_seed_val).
constexpr uint64_t default_seed = 67280421310721u;
// More devices than any machine has: an invalid number is noticed before a driver is open.
constexpr int32_t most_devices = 4096;

State get_state(const tb_generator &generator);
void set_state(tb_generator &generator, State state);
// Advances the offset by ceil(words / 4), modulo 2^64, and returns the state before.
State reserve(tb_generator &generator, uint64_t words);

// See tb_generator_table in tb/component.h. Both throw Refusal with TB_FAILED_PRECONDITION in the wrong state.
void capture_begin(tb_generator &generator);
uint64_t capture_end(tb_generator &generator);
bool is_capturing(const tb_generator &generator);

// The device's default generator, which is never destroyed. Throws Refusal with TB_OUT_OF_RANGE unless
// 0 <= device < device_count.
tb_generator &default_generator(int32_t device, int32_t device_count);
// Seeds the default generators, also those made later, and sets their offsets to 0. A capture in progress ends with the
// state from before it.
void seed_all(uint64_t seed);

} // namespace tb::generator

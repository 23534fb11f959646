// A position in a random sequence: the seed that names it, and the number of Philox blocks taken from it so far.
#pragma once
#include <cstdint>

namespace tb::generator {

struct State {
  uint64_t seed, offset;
};

} // namespace tb::generator

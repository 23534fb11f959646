// A stream of random words for NumPy.
#include "bits.h"

#include "instruction_set.h"
#include "philox.h"

namespace tb::generator {

Bits::Bits(uint64_t seed)
    : interface{this, [](void *bits) { return static_cast<Bits *>(bits)->next_pair(); },
                [](void *bits) { return static_cast<Bits *>(bits)->next_word(); },
                [](void *bits) { return static_cast<double>(static_cast<Bits *>(bits)->next_pair() >> 11) * 0x1p-53; },
                [](void *bits) { return static_cast<Bits *>(bits)->next_pair(); }} {
  set(seed, 0, 0);
}

void Bits::set(uint64_t seed, uint64_t block, uint32_t place) {
  seed_ = seed;
  block_ = block - size / 4;
  refill();
  next_ = place;
}

void Bits::refill() {
  block_ += size / 4;
  next_ = 0;
  fill({.kind = TB_FILL_INTEGERS, .from = INT32_MIN, .width = uint64_t{1} << 32}, words_, TB_INT32, {0, size},
       {seed_, block_});
  for (uint32_t &word : words_) word -= 0x80000000u; // a fill of int32 starts at its lowest value
}

} // namespace tb::generator

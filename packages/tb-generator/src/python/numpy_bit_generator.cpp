// Fills the buffer of words, and the function pointers that NumPy calls.
#include "python/numpy_bit_generator.h"

#include "philox/philox.h"
#include "processor/instruction_set.h"

namespace tb::generator {

NumpyBitGenerator::NumpyBitGenerator(uint64_t seed)
    : interface{this, [](void *bits) { return static_cast<NumpyBitGenerator *>(bits)->next_pair(); },
                [](void *bits) { return static_cast<NumpyBitGenerator *>(bits)->next_word(); },
                [](void *bits) {
                  return static_cast<double>(static_cast<NumpyBitGenerator *>(bits)->next_pair() >> 11) * 0x1p-53;
                },
                [](void *bits) { return static_cast<NumpyBitGenerator *>(bits)->next_pair(); }} {
  set(seed, 0, 0);
}

void NumpyBitGenerator::set(uint64_t seed, uint64_t block, uint32_t position) {
  seed_ = seed;
  block_ = block - size / 4;
  refill();
  next_ = position;
}

void NumpyBitGenerator::refill() {
  block_ += size / 4;
  next_ = 0;
  fill({.kind = TB_FILL_INTEGERS, .from = INT32_MIN, .width = uint64_t{1} << 32}, words_, TB_INT32, {0, size},
       {seed_, block_});
  for (uint32_t &word : words_) word -= 0x80000000u; // an int32 fill begins at the type's lowest value
}

} // namespace tb::generator

// A stream of random words behind the function pointers of NumPy's `bitgen_t` (numpy/random/bitgen.h), which
// numpy.random.Generator draws from. Not thread-safe: NumPy holds the bit generator's lock.
#pragma once
#include <cstdint>

#include "fill/fill.h"

namespace tb::generator {

struct NumpyInterface {
  void *state;
  uint64_t (*next_uint64)(void *);
  uint32_t (*next_uint32)(void *);
  double (*next_double)(void *);
  uint64_t (*next_raw)(void *);
};

class NumpyBitGenerator {
public:
  explicit NumpyBitGenerator(uint64_t seed);
  NumpyBitGenerator(const NumpyBitGenerator &) = delete;
  NumpyBitGenerator &operator=(const NumpyBitGenerator &) = delete;

  uint64_t seed() const { return seed_; }
  // The block of the next word, and the word's position in it, 0 to 3.
  uint64_t block() const { return block_ + next_ / 4; }
  uint32_t position() const { return next_ % 4; }
  void set(uint64_t seed, uint64_t block, uint32_t position);

  uint32_t next_word() {
    if (next_ == size) refill();
    return words_[next_++];
  }
  // Two words, the lower half first. A word at an odd position before them is left out, so that a pair is always in one
  // block.
  uint64_t next_pair() {
    next_ += next_ % 2;
    if (next_ == size) refill();
    const uint64_t low = words_[next_], high = words_[next_ + 1];
    next_ += 2;
    return high << 32 | low;
  }

  NumpyInterface interface;

private:
  void refill();
  static constexpr uint32_t size = 1024;
  uint64_t seed_, block_ = 0; // block_ is the block of words_[0]
  uint32_t next_ = size;
  uint32_t words_[size];
};

} // namespace tb::generator

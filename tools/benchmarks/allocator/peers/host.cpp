// host.cpp -- measures malloc, or the allocator that LD_PRELOAD puts in its place. Host allocators have no streams.
#include "measure.h"

namespace {

class Allocator {
public:
  using Block = void *;

  explicit Allocator(uint32_t) {}
  bool allocate(uint64_t bytes, uint32_t, Block *out) {
    *out = malloc(bytes);
    asm volatile("" : : "r"(*out) : "memory"); // without this the compiler removes the pair
    return *out != nullptr;
  }
  void deallocate(Block &block) { free(block); }
  void record(Block &, uint32_t) {}
  uint64_t peak_reserved() { return 0; }
};

} // namespace

int main(int count, char **arguments) { return measure::main<Allocator>(count, arguments); }

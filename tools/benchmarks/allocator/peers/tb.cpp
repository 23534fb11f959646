// tb.cpp -- tb-allocator through its C table, over the driver without memory; statistics and history on.
#include "measure.h"

#include "replay/emulated_host.h"
#include "table/table.h"

namespace {

tb_driver driver(uint64_t{1} << 42, 0);

class Allocator {
public:
  using Block = tb_block *;

  explicit Allocator(uint32_t streams) : streams_(streams, tb_stream{&driver}) {
    tb::allocator::install_emulated_host(&driver);
    tb::host.set_error = [](tb_status, int64_t, int32_t, const char *function, const char *text) {
      fprintf(stderr, "%s: %s\n", function, text);
    };
  }

  bool allocate(uint64_t bytes, uint32_t stream, Block *out) {
    void *pointer;
    return tb::allocator::allocator_table.allocate(0, bytes, &streams_[stream], &pointer, out) == TB_OK;
  }
  void deallocate(Block &block) { tb::allocator::allocator_table.deallocate(block); }
  void record(Block &block, uint32_t stream) { tb::allocator::allocator_table.record_stream(block, &streams_[stream]); }
  void tick() { ++driver.now; }
  uint64_t peak_reserved() { return driver.peak; }

private:
  std::vector<tb_stream> streams_;
};

} // namespace

int main(int count, char **arguments) { return measure::main<Allocator>(count, arguments); }

// tb.cpp -- tb-allocator through its C table, over the driver without memory; statistics and history on.
#include "measure.h"

#include "host.h"
#include "replay/emulated.h"
#include "table/table.h"

namespace {

tb_driver driver(uint64_t{1} << 42, 0);
int32_t forked = 0;

class Allocator {
public:
  using Block = tb_block *;

  explicit Allocator(uint32_t streams) : streams_(streams, tb_stream{&driver}) {
    tb::host.struct_size = sizeof tb::host;
    tb::host.driver = [](const tb_driver_api **out_api, tb_driver **out_self) -> tb_status {
      *out_api = &tb::allocator::emulated_api();
      *out_self = &driver;
      return TB_OK;
    };
    tb::host.is_open = []() -> int32_t { return 1; };
    tb::host.device_count = [](int32_t *out) -> tb_status {
      *out = 1;
      return TB_OK;
    };
    tb::host.current_device = []() -> int32_t { return 0; };
    tb::host.device_info = [](int32_t, tb_device_info *out) -> tb_status {
      out->total_memory = driver.capacity;
      out->alignment = 512;
      return TB_OK;
    };
    tb::host.set_error = [](tb_status, int64_t, int32_t, const char *function, const char *text) {
      fprintf(stderr, "%s: %s\n", function, text);
    };
    tb::host.take_error = [](tb_error *) -> int32_t { return 0; };
    tb::host.on_shutdown = [](void (*)(void *), void *) -> tb_status { return TB_OK; };
    tb::host.forked = &forked;
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

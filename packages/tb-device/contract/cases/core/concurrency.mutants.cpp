// Drivers that break a rule only when threads race.
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "contract/mutant.h"

namespace tb::contract::concurrency_mutants {
namespace {

TB_MUTANT(failure_reported_twice, "cpu", "E4", "CON-09",
          "a stream's failure is reported to every caller, again and again") {
  static std::atomic<tb_status> last{TB_OK};
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) {
    const tb_status status = real().stream_synchronize(self, stream);
    if (status != TB_OK) last = status;
    return last.load();
  };
}

// Gives the last freed block of a size out first, as pools do.
TB_MUTANT(free_forgets_late, "cpu", "mem_free.1", "CON-11", "forgets a block when its memory is already another's") {
  static std::mutex mutex;
  static std::map<void *, uint64_t> known; // sizes
  static std::map<uint64_t, std::vector<void *>> pool;
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    std::lock_guard lock(mutex);
    if (std::vector<void *> &free = pool[size]; !free.empty()) {
      *out = free.back();
      free.pop_back();
    } else if (const tb_status status = real().mem_alloc(self, device, size, flags, out)) {
      return status;
    }
    known[*out] = size;
    return TB_OK;
  };
  api.mem_free = [](tb_driver *, int32_t, void *ptr) -> tb_status {
    if (!ptr) return TB_OK;
    {
      std::lock_guard lock(mutex);
      const auto found = known.find(ptr);
      if (found == known.end()) return TB_INVALID_ARGUMENT;
      pool[found->second].push_back(ptr);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100)); // a free that has more to do
    std::lock_guard lock(mutex);
    known.erase(ptr);
    return TB_OK;
  };
  api.close = [](tb_driver *self) -> tb_status {
    for (const auto &[size, free] : pool)
      for (void *each : free) real().mem_free(self, 0, each);
    pool.clear();
    return real().close(self);
  };
}

} // namespace
} // namespace tb::contract::concurrency_mutants

// Drivers whose stream-ordered memory breaks a rule.
#include <map>
#include <mutex>

#include "contract/mutant.h"

namespace tb::contract::stream_ordered_memory_mutants {
namespace {

tb_status ok() { return TB_OK; }

TB_MUTANT(free_async_at_once, "cpu", "mem_free_async.1", "SOA-03",
          "mem_free_async gives the memory to the next that asks, at once") {
  static std::mutex mutex;
  static std::map<void *, uint64_t> sizes, free;
  api.mem_alloc_async = [](tb_driver *self, tb_stream *stream, uint64_t size, uint64_t flags, void **out) {
    std::lock_guard lock(mutex);
    for (const auto &[memory, room] : free)
      if (room == size) {
        *out = memory;
        sizes[memory] = size;
        free.erase(memory);
        return ok();
      }
    const tb_status status = real().mem_alloc_async(self, stream, size, flags, out);
    if (status == TB_OK) sizes[*out] = size;
    return status;
  };
  api.mem_free_async = [](tb_driver *, tb_stream *, void *ptr) {
    std::lock_guard lock(mutex);
    if (ptr) free[ptr] = sizes[ptr];
    return ok();
  };
}

TB_MUTANT(free_async_leaks, "cpu", "mem_free_async.1", "SOA-05", "mem_free_async never gives memory back") {
  api.mem_free_async = [](tb_driver *, tb_stream *, void *) { return ok(); };
}

} // namespace
} // namespace tb::contract::stream_ordered_memory_mutants

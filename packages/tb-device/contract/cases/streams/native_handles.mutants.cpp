// Drivers whose native streams break a rule.
#include <atomic>
#include <mutex>
#include <set>

#include "contract/mutant.h"

namespace tb::contract::native_handles_mutants {
namespace {

TB_MUTANT(native_fresh, "cpu", "stream_native.1", "NAT-01", "stream_native gives another number each time") {
  static std::atomic<uint64_t> next{1000};
  api.stream_native = [](tb_driver *self, tb_stream *stream, uint64_t *out) {
    const tb_status status = real().stream_native(self, stream, out);
    if (status == TB_OK) *out = ++next;
    return status;
  };
}

TB_MUTANT(wrap_makes_a_stream, "cpu", "stream_wrap.1", "NAT-02", "stream_wrap gives a stream of its own") {
  api.stream_wrap = [](tb_driver *self, int32_t device, uint64_t, tb_stream **out) {
    return real().stream_create(self, device, 0, 0, out);
  };
}

TB_MUTANT(native_stream_seems_busy, "cpu", "stream_query.3", "NAT-06",
          "a stream whose handle was given out is asked by a marker that has just been queued") {
  static std::mutex mutex;
  static std::set<tb_stream *> given;
  given.clear();
  api.stream_native = [](tb_driver *self, tb_stream *stream, uint64_t *out) {
    std::lock_guard lock(mutex);
    given.insert(stream);
    return real().stream_native(self, stream, out);
  };
  api.stream_query = [](tb_driver *self, tb_stream *stream) -> tb_status {
    std::lock_guard lock(mutex);
    return given.contains(stream) ? TB_NOT_READY : real().stream_query(self, stream);
  };
}

} // namespace
} // namespace tb::contract::native_handles_mutants

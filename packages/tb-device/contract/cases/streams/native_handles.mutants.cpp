// Drivers whose native streams break a rule.
#include <atomic>

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

} // namespace
} // namespace tb::contract::native_handles_mutants

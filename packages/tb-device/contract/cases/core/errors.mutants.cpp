// Drivers that fail in a wrong way.
#include <atomic>
#include <cstdio>

#include "contract/kit.h"
#include "contract/mutant.h"

namespace tb::contract::errors_mutants {

TB_MUTANT(err_writes_before_checks, "cpu", "E1", "ERR-01", "clears an out-parameter before it looks at the device") {
  api.stream_default = [](tb_driver *self, int32_t device, tb_stream **out) -> tb_status {
    if (out) *out = nullptr;
    return real().stream_default(self, device, out);
  };
}

TB_MUTANT(err_no_text, "cpu", "E2", "ERR-02", "refuses a device without a word") {
  api.peer_can_access = [](tb_driver *self, int32_t device, int32_t peer, int32_t *out) -> tb_status {
    return device < 0 || device > 1 ? static_cast<tb_status>(TB_OUT_OF_RANGE)
                                    : real().peer_can_access(self, device, peer, out);
  };
}

TB_MUTANT(err_text_of_success, "cpu", "E3", "ERR-03", "sets a text in a call that succeeds") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    if (status == TB_OK) Kit::host()->set_error(TB_UNKNOWN, 0, "the fast pool was empty");
    return status;
  };
}

TB_MUTANT(err_failure_for_ever, "cpu", "E4", "ERR-04", "tells a failure again and again") {
  static std::atomic<tb_status> failed{TB_OK};
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) -> tb_status {
    const tb_status status = real().stream_synchronize(self, stream);
    if (status != TB_OK) failed = status;
    if (failed != TB_OK) Kit::host()->set_error(failed, 0, "planted for ERR-04, reported again");
    return failed;
  };
}

TB_MUTANT(err_failure_stays_home, "cpu", "E4", "ERR-05", "waits on a failed stream's event without its failure") {
  api.stream_wait_event = [](tb_driver *self, tb_stream *stream, tb_event *event) -> tb_status {
    real().event_synchronize(self, event); // which takes the failure
    return real().stream_wait_event(self, stream, event);
  };
}

TB_MUTANT(err_query_hides_failure, "cpu", "E4", "ERR-06", "answers a query with TB_OK where work has failed") {
  api.event_query = [](tb_driver *self, tb_event *event) -> tb_status {
    const tb_status status = real().event_query(self, event);
    return status == TB_NOT_READY ? status : static_cast<tb_status>(TB_OK);
  };
}

TB_MUTANT(err_prints, "cpu", "E5", "ERR-09", "prints when memory is short") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    if (status == TB_OUT_OF_MEMORY) std::fprintf(stderr, "mychip: out of memory\n");
    return status;
  };
}

TB_MUTANT(err_own_status, "cpu", "E6", "ERR-10", "returns the vendor's own number") {
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) -> tb_status {
    const tb_status status = real().mem_set(self, device, stream, dst, pattern, size, count);
    return status == TB_OUT_OF_RANGE ? 701 : status;
  };
}

TB_MUTANT(err_null_out, "cpu", "E7", "ERR-11", "succeeds without a place for the answer") {
  api.device_count = [](tb_driver *self, int32_t *out) -> tb_status {
    return out ? real().device_count(self, out) : static_cast<tb_status>(TB_OK);
  };
}

TB_MUTANT(err_event_flags, "cpu", "E7", "ERR-12", "makes events with flags that it does not know") {
  api.event_create = [](tb_driver *self, int32_t device, uint64_t flags, tb_event **out) -> tb_status {
    return real().event_create(self, device, flags & 3, out);
  };
}

} // namespace tb::contract::errors_mutants

// Drivers that keep what they should give back.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "contract/mutant.h"

namespace tb::contract::leaks_mutants {

TB_MUTANT(lek_event_forgotten, "cpu", "close.2", "LEK-01", "closes while an event is alive") {
  static std::atomic<int> events{0};
  api.event_create = [](tb_driver *self, int32_t device, uint64_t flags, tb_event **out) -> tb_status {
    const tb_status status = real().event_create(self, device, flags, out);
    events += status == TB_OK;
    return status;
  };
  api.event_destroy = [](tb_driver *self, tb_event *event) -> tb_status {
    --events;
    return real().event_destroy(self, event);
  };
  api.close = [](tb_driver *self) -> tb_status {
    return events > 0 ? static_cast<tb_status>(TB_OK) : real().close(self); // and with it the driver leaks
  };
}

TB_MUTANT(lek_record_per_block, "cpu", "mem_free.1", "LEK-02", "keeps a record of 256 bytes of each block for ever") {
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    static void *volatile kept;
    kept = std::malloc(256);
    if (kept) memset(kept, 1, 256);
    return real().mem_free(self, device, ptr);
  };
}

TB_MUTANT(lek_descriptor, "cpu", "close.3", "LEK-03", "opens a descriptor for each event and forgets it") {
  api.event_destroy = [](tb_driver *self, tb_event *event) -> tb_status {
    (void)!dup(2);
    return real().event_destroy(self, event);
  };
}

TB_MUTANT(lek_thread, "cpu", "close.3", "LEK-03", "leaves a thread behind for each stream") {
  api.stream_destroy = [](tb_driver *self, tb_stream *stream) -> tb_status {
    std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(30)); }).detach();
    return real().stream_destroy(self, stream);
  };
}

TB_MUTANT(lek_failed_create, "cpu", "E1", "LEK-04", "makes the event before it refuses the flags") {
  api.event_create = [](tb_driver *self, int32_t device, uint64_t flags, tb_event **out) -> tb_status {
    tb_event *lost = nullptr;
    if (flags >> 8) real().event_create(self, device, 0, &lost);
    return real().event_create(self, device, flags, out);
  };
}

TB_MUTANT(lek_thread_outlives_close, "cpu", "close.3", "LEK-08", "leaves a thread behind when it closes") {
  api.close = [](tb_driver *self) -> tb_status {
    const tb_status status = real().close(self);
    if (status == TB_OK) std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(30)); }).detach();
    return status;
  };
}

} // namespace tb::contract::leaks_mutants

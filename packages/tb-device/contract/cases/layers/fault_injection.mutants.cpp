// Drivers that do not survive a client's failure paths.
#include "contract/mutant.h"

namespace tb::contract::fault_injection_mutants {

TB_MUTANT(cancel_keeps_the_place, "cpu", "closure_cancel.1", "FLT-10",
          "a cancelled place in the queue is never passed") {
  api.closure_cancel = [](tb_driver *, tb_stream *, void *) -> tb_status { return TB_OK; };
}

TB_MUTANT(fresh_event_pending, "cpu", "event_create.1", "FLT-06", "a fresh event is not complete") {
  static tb_event *fresh = nullptr;
  api.event_create = [](tb_driver *self, int32_t device, uint64_t flags, tb_event **out) -> tb_status {
    const tb_status status = real().event_create(self, device, flags, out);
    if (status == TB_OK) fresh = *out;
    return status;
  };
  api.event_record = [](tb_driver *self, tb_event *event, tb_stream *stream) -> tb_status {
    if (event == fresh) fresh = nullptr;
    return real().event_record(self, event, stream);
  };
  api.event_query = [](tb_driver *self, tb_event *event) -> tb_status {
    return event == fresh ? TB_NOT_READY : real().event_query(self, event);
  };
}

TB_MUTANT(destroyed_streams_are_not_waited_for, "cpu", "device_synchronize.1", "FLT-09",
          "device_synchronize returns at once") {
  api.device_synchronize = [](tb_driver *, int32_t) -> tb_status { return TB_OK; };
}

TB_MUTANT(second_allocation_is_lost, "cpu", "device_memory_info.2", "FLT-05", "each second block is not given back") {
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    static bool second = false;
    if (ptr) second = !second;
    return ptr && !second ? TB_OK : real().mem_free(self, device, ptr);
  };
}

} // namespace tb::contract::fault_injection_mutants

// events.h -- pooled events. Making an event costs a driver call and, on many devices, a lock in the kernel. All
// functions are thread-safe and set an error text when they fail.
#pragma once

#include "host.h"

namespace tb::stream {

// Takes an event of the device from the pool of its flags (TB_EVENT_*), or makes one. It may still hold the record of
// its last owner: record it before any other use.
tb_status acquire_event(int32_t device, uint64_t flags, tb_event **out);
// Opens an event of another process, exported from one made with TB_EVENT_IPC. It is released as others are.
tb_status import_event(int32_t device, const tb_ipc_handle &handle, tb_event **out);
// Returns an event to its pool. The event may be pending: the next record replaces its point, and waits that were
// queued before keep theirs. NULL is a no-op. TB_INVALID_ARGUMENT if the event is not of this pool or was released
// already. An event that other processes know is destroyed instead: they would see the records of its next owner.
tb_status release_event(tb_event *event);
// Whether the event was acquired and not released since.
bool is_acquired(tb_event *event);

} // namespace tb::stream

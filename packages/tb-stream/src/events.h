// events.h -- pooled events. Making an event costs a driver call and, on many devices, a lock in the kernel.
#pragma once

#include "host.h"

namespace tb {

// An event of the device; flags are TB_EVENT_*. It may still carry the record of its last owner: record it before any
// other use. Free list of its own for each (device, flags).
tb_status acquire_event(int32_t device, uint64_t flags, tb_event **out);
// An event of another process, exported from one made with TB_EVENT_IPC; to be released as others.
tb_status import_event(int32_t device, const tb_ipc_handle &handle, tb_event **out);
// Back to its pool, also while pending: the next record replaces its point, waits already made keep theirs. An event
// that is not of this pool, or already released: TB_INVALID_ARGUMENT. NULL is a no-op. Events that other processes know
// are destroyed instead: their next owner's records would be seen there.
tb_status release_event(tb_event *event);

} // namespace tb

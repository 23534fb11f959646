// Operators that wait for the device. They are not counted; torch.tb.set_sync_debug_mode reports them. In a capture, where
// the wait would never end, they raise, or end the capture if it can be interrupted.
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace tb::ops {

// Why an operator waits.
enum class SyncReason {
  data_dependent, // the host needs what the device computes
  first_dtype,    // the kernel meets this combination of dtypes for the first time (DtypeProbe)
  first_shape     // the layout cache meets this combination of shapes for the first time
};

// Waits for the current stream of a device and raises the failure of its queued work. `operation` is the operator that
// waits. Throws c10::Error in a capture that cannot be interrupted and, for every reason but first_dtype, in the mode `error`.
void synchronize(c10::DeviceIndex device, const char *operation, SyncReason why = SyncReason::data_dependent);
inline void synchronize(c10::DeviceIndex device, const std::string &operation,
                        SyncReason why = SyncReason::data_dependent) {
  synchronize(device, operation.c_str(), why);
}

// The two halves of synchronize(), for work that the host's memory has to outlive: announce_wait() throws before such work
// is queued, and wait_announced() waits for it.
void announce_wait(c10::DeviceIndex device, const char *operation, SyncReason why = SyncReason::data_dependent);
void wait_announced(c10::DeviceIndex device);

enum class SyncDebugMode { none, warn, error };
void set_sync_debug_mode(SyncDebugMode mode);
SyncDebugMode sync_debug_mode();

// Throws in such a capture: the graph would copy host memory that is not pinned once, now, and never again.
void refuse_captured_copy(c10::DeviceIndex device);

} // namespace tb::ops

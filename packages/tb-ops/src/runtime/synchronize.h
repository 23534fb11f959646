// Operators that wait for the device: counted by nobody, but told about (torch.tb.set_sync_debug_mode), and refused where
// waiting would never end, in a capture.
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace tb {

enum class Wait {
  always,      // by its nature
  first_types, // once for each kernel and combination of types (FirstUse)
  first_shapes // once for each combination of shapes (learned operators)
};

// Waits for the current stream of a device; raises what its queued work failed with. `operation`: whose wait it is.
// Throws c10::Error in a capture and, for all but first_types, in the mode `error`.
void synchronize(c10::DeviceIndex device, const char *operation, Wait wait = Wait::always);
inline void synchronize(c10::DeviceIndex device, const std::string &operation, Wait wait = Wait::always) {
  synchronize(device, operation.c_str(), wait);
}

enum class SyncDebugMode { none, warn, error };
void set_sync_debug_mode(SyncDebugMode mode);
SyncDebugMode sync_debug_mode();

// Throws in a capture: host memory that is not pinned would be copied once, now, and never again.
void refuse_captured_copy(c10::DeviceIndex device);

} // namespace tb

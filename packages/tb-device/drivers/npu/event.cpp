// Events of the library, of the new kind or the old.
#include "drivers/npu/driver.h"

namespace tb::drivers::npu {

// SYNC on all, since any of them may be waited for; the clock only where it was asked for.
NativeEvent::NativeEvent(Runtime &runtime, int32_t device, bool timing, const tb_host *host)
    : runtime_(runtime), device_(device), host_(host) {
  const Library &library = runtime.library;
  const uint32_t flags = timing ? acl::event_sync | acl::event_time_line : acl::event_sync;
  runtime.call(library.aclrtCreateEventExWithFlag ? library.aclrtCreateEventExWithFlag
                                                  : library.aclrtCreateEventWithFlag,
               &native, flags);
}

NativeEvent::~NativeEvent() { runtime_.give_back_and_log(device_, host_, runtime_.library.aclrtDestroyEvent, native); }

} // namespace tb::drivers::npu

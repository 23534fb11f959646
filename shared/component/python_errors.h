// python_errors.h -- failures as Python exceptions. This is the only place where a status becomes an exception. All
// functions need the GIL.
#pragma once

#include <cstdint>

#include "host.h"

namespace tb {

// Raises tb_device's exception for `status`, with this thread's error text.
[[noreturn]] void raise_status(tb_status status, const char *function, int32_t device);
// The same with the given text.
[[noreturn]] void raise(tb_status status, const char *function, int32_t device, const char *text);
inline void check(tb_status status, const char *function, int32_t device) {
  if (status != TB_OK) [[unlikely]]
    raise_status(status, function, device);
}
// check() for a function that waited for a device. After a success it reports what queued work noted, which may raise.
void check_wait(tb_status status, const char *function, int32_t device);
// The process's driver; raises the reason if there is none.
Driver require_driver();

} // namespace tb

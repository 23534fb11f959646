// python_errors.h -- failures as Python exceptions: the one place where a status is raised.
#pragma once

#include <cstdint>

#include "host.h"

namespace tb {

// Raises tb_device's exception for `status`, with this thread's error text. Needs the GIL.
[[noreturn]] void raise_status(tb_status status, const char *function, int32_t device);
// The same with a text of our own.
[[noreturn]] void raise(tb_status status, const char *function, int32_t device, const char *text);
inline void check(tb_status status, const char *function, int32_t device) {
  if (status != TB_OK) [[unlikely]]
    raise_status(status, function, device);
}
// Of a function that waited for a device: with success, what queued work had to say is told, which may raise too.
void check_wait(tb_status status, const char *function, int32_t device);
// The process's driver; raises why there is none.
Driver require_driver();

} // namespace tb

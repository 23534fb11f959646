// The tables of the other components, and the open driver.
#pragma once
#include <cstdint>

#include "tb/component.h"
#include "tb/operator_table.h"

namespace tb {

struct Components {
  tb_device_table device;
  tb_stream_table stream;
  tb_ops_table ops;
};
extern Components components;

// Takes the tables, once a process. Python's error is thrown: ImportError where one is missing or does not match.
void connect_components();

struct Driver {
  const tb_driver_api *api = nullptr;
  tb_driver *self = nullptr;
};
// The process's driver, opened at the first call.
Driver open_driver();

// Throws what a component reported, with the whole text for the user.
[[noreturn]] void raise(tb_status status, const char *function, int32_t device);
inline void check(tb_status status, const char *function, int32_t device) {
  if (status != TB_OK) [[unlikely]]
    raise(status, function, device);
}

// Makes all that is queued on `stream` from now on wait for what is queued on `earlier`.
void wait_stream(int32_t device, tb_stream *stream, tb_stream *earlier);

// Whether work of this thread's current stream of a device goes to a capture instead of running.
bool is_capturing(int32_t device);

} // namespace tb

// The tables of the other components, and the open driver.
#pragma once
#include <cstdint>

#include "tb/component.h"
#include "tb/failures.h"
#include "tb/operator_table.h"

namespace tb::compile {

struct Components {
  tb_device_table device;
  tb_stream_table stream;
  tb_allocator_table allocator;
  tb_ops_table ops;
};
extern Components components;

// Imports the tables, once a process. Throws Python's ImportError if one is missing or does not match. Needs the GIL.
void connect_components();

struct Driver {
  const tb_driver_api *api = nullptr;
  tb_driver *self = nullptr;
};
// The process's driver. The first call opens it.
Driver open_driver();

// Throws the failure that a component reported, if `status` is one.
inline void check(tb_status status, const char *function, int32_t device) {
  if (status != TB_OK) [[unlikely]]
    throw_reported_failure(components.device, status, function, device, Failed::call);
}

// Makes the work that is queued on `stream` from now on wait for the work that is queued on `earlier`.
void wait_stream(int32_t device, tb_stream *stream, tb_stream *earlier);

// Whether this thread's current stream of a device takes part in a capture.
bool is_capturing(int32_t device);

} // namespace tb::compile

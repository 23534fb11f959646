// host.h -- tb-device's table, which `_connect` imports, and failures with a text.
#pragma once

#include "tb/component.h"

namespace tb {

inline tb_device_table host{};

// The process's driver. After close and in a forked child, the functions of its table fail with a text.
struct Driver {
  const tb_driver_api *api = nullptr;
  tb_driver *self = nullptr;
};
inline tb_status open_driver(Driver *out) { return host.driver(&out->api, &out->self); }

inline tb_status fail(tb_status status, int32_t device, const char *function, const char *text) {
  host.set_error(status, 0, device, function, text);
  return status;
}

// Takes an error of this thread, which is not reported.
inline void drop_error() {
  tb_error error{};
  error.struct_size = sizeof error;
  host.take_error(&error);
}

} // namespace tb

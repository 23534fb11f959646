// emulated_host.h -- tb-device's table over the driver without memory, for programs that run without tb-device.
#pragma once

#include "replay/emulated.h"

namespace tb::allocator {

inline tb_driver *emulated_driver = nullptr; // the process's driver, if the program has one

// Errors keep no text; a program that wants to show them replaces host.set_error.
inline void install_emulated_host(tb_driver *driver = nullptr) {
  static const int32_t never_forked = 0;
  emulated_driver = driver;
  host.struct_size = sizeof host;
  host.driver = [](const tb_driver_api **out_api, tb_driver **out_self) -> tb_status {
    *out_api = &emulated_api();
    *out_self = emulated_driver;
    return TB_OK;
  };
  host.is_open = []() -> int32_t { return emulated_driver != nullptr; };
  host.device_count = [](int32_t *out) -> tb_status {
    *out = 1;
    return TB_OK;
  };
  host.current_device = []() -> int32_t { return 0; };
  host.device_info = [](int32_t, tb_device_info *out) -> tb_status {
    out->total_memory = emulated_driver->capacity;
    out->alignment = 512;
    return TB_OK;
  };
  host.set_error = [](tb_status, int64_t, int32_t, const char *, const char *) {};
  host.take_error = [](tb_error *) -> int32_t { return 0; };
  host.on_shutdown = [](void (*)(void *), void *) -> tb_status { return TB_OK; };
  host.forked = &never_forked;
}

} // namespace tb::allocator

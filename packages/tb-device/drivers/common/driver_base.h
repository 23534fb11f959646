// What the `self` of every driver has: its host, and the checks of arguments that all functions make.
#pragma once

#include "drivers/common/error_text.h"
#include "drivers/common/info_struct.h"
#include "tb/driver.h"

namespace tb::drivers {

class DriverBase {
public:
  explicit DriverBase(const tb_host *host) : host(host) {}
  DriverBase(const DriverBase &) = delete;
  DriverBase &operator=(const DriverBase &) = delete;

  const tb_host *const host;

  // TB_OK, or a failure when `pointer` is NULL.
  tb_status require(const void *pointer, const char *name) const {
    return pointer ? TB_OK : fail(host, TB_INVALID_ARGUMENT, "%s is NULL", name);
  }
  tb_status refuse_flags(uint64_t flags, uint64_t known) const {
    if ((flags & ~known) == 0) return TB_OK;
    return fail(host, TB_INVALID_ARGUMENT, "unknown flags %#llx", static_cast<unsigned long long>(flags & ~known));
  }
  // Fills an info struct as far as the caller's struct_size reaches.
  template <class Info> tb_status give(Info info, Info *out) const { return fill_info(host, info, out); }
};

} // namespace tb::drivers

// Copies an info struct to a caller that may know fewer of its fields.
#pragma once

#include "drivers/common/error_text.h"
#include "tb/driver.h"

namespace tb::drivers {

// Fills `out` as far as its struct_size reaches.
template <class Info> tb_status fill_info(const tb_host *host, Info info, Info *out) {
  if (!out) return fail(host, TB_INVALID_ARGUMENT, "out is NULL");
  const uint32_t room = out->struct_size;
  if (room < sizeof room)
    return fail(host, TB_INVALID_ARGUMENT, "struct_size is %u: set it to the size of the struct before the call", room);
  info.struct_size = sizeof info;
  return tb_struct_fill(out, &info);
}

} // namespace tb::drivers

// An info struct for the caller, for the drivers that are built in.
#pragma once

#include "drivers/common/error_text.h"
#include "tb/driver.h"

namespace tb::cpu {

// Gives it as far as the caller's struct_size knows it.
template <class Info> tb_status give(const tb_host *host, Info info, Info *out) {
  if (!out) return fail(host, TB_INVALID_ARGUMENT, "out is NULL");
  const uint32_t room = out->struct_size;
  if (room < sizeof room)
    return fail(host, TB_INVALID_ARGUMENT, "struct_size is %u: set it to the size of the struct before the call", room);
  info.struct_size = sizeof info;
  return tb_struct_fill(out, &info);
}

} // namespace tb::cpu

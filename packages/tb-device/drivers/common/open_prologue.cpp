// Checks the arguments of tb_driver_open_v1 and hands out the table.
#include "drivers/common/open_prologue.h"

#include "drivers/common/error_text.h"
#include "drivers/common/version.h"

namespace tb::drivers {

tb_status check_open(const char *driver, const tb_host *host, const tb_driver_api *api, tb_driver **self) {
  if (!host || !host->set_error) return TB_INVALID_ARGUMENT; // no text can be reported
  if (!api || !self) return fail(host, TB_INVALID_ARGUMENT, "%s is NULL", api ? "self" : "api");
  if (host->abi_major == TB_ABI_MAJOR) return TB_OK;
  return fail(host, TB_ABI_MISMATCH, "the %s driver speaks driver ABI %d.x, the host %d.%d", driver, TB_ABI_MAJOR,
              host->abi_major, host->abi_minor);
}

tb_driver_api start_table(uint64_t groups) {
  tb_driver_api table = {};
  table.struct_size = sizeof table;
  table.abi_major = TB_ABI_MAJOR;
  table.abi_minor = TB_ABI_MINOR;
  table.groups = groups;
  table.build_id = build_id;
  return table;
}

tb_status hand_out(const tb_host *host, const tb_driver_api &table, tb_driver_api *api) {
  const tb_status status = tb_driver_fill(api, &table);
  if (status == TB_OK) return TB_OK;
  return fail(host, status, "the host's table of %u bytes is smaller than the ABI's prelude", api->struct_size);
}

} // namespace tb::drivers

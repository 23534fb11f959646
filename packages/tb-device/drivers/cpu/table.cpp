// Opening the CPU driver and the table it gives.
#include <string_view>

#include "drivers/cpu/cpu_driver.h"
#include "drivers/cpu/driver.h"
#include "drivers/cpu/ipc/shared_file.h"

#if defined(__SANITIZE_THREAD__)
#define TB_CPU_SANITIZER "thread sanitizer"
#elif defined(__SANITIZE_ADDRESS__)
#define TB_CPU_SANITIZER "address sanitizer"
#else
#define TB_CPU_SANITIZER "no sanitizer"
#endif
#ifndef TB_PACKAGE_VERSION
#define TB_PACKAGE_VERSION "unversioned"
#endif

namespace tb::cpu {
namespace {

constexpr uint64_t offered_groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_PTR | TB_GROUP_SOA |
                                    TB_GROUP_COPY2D | TB_GROUP_VMM | TB_GROUP_PEER | TB_GROUP_HOSTCALL |
                                    TB_GROUP_NATIVE | TB_GROUP_TIMING | TB_GROUP_MODULE | TB_GROUP_IPC |
                                    TB_GROUP_CLOSURE;

// Every group; IPC where the system lets it work.
uint64_t groups() { return can_move_pages() ? offered_groups : offered_groups & ~uint64_t(TB_GROUP_IPC); }

tb_driver_api make_table() {
  tb_driver_api table = {};
  table.struct_size = sizeof table;
  table.abi_major = TB_ABI_MAJOR;
  table.abi_minor = TB_ABI_MINOR;
  table.groups = groups();
  table.build_id = "tb-device " TB_PACKAGE_VERSION ", " __VERSION__ ", " TB_CPU_SANITIZER;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if constexpr (std::string_view(#name) != "device_reset") /* a CPU device is never lost */                            \
    if (table.groups & TB_GROUP_##group) table.name = slots::name;
#define TB_SLOT0(group, need, name) TB_SLOT(group, need, name, (), ())
#include "tb/driver_slots.inc"
#undef TB_SLOT0
#undef TB_SLOT
  return table;
}

} // namespace
} // namespace tb::cpu

extern "C" tb_status tb_cpu_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  using namespace tb::cpu;
  if (!host || !host->set_error) return TB_INVALID_ARGUMENT; // nowhere to put a text
  return guarded(host, [&]() -> tb_status {
    if (!api || !self) return fail(host, TB_INVALID_ARGUMENT, "%s is NULL", api ? "self" : "api");
    if (host->abi_major != TB_ABI_MAJOR)
      return fail(host, TB_ABI_MISMATCH, "the CPU driver speaks driver ABI %d.x, the host %d.%d", TB_ABI_MAJOR,
                  host->abi_major, host->abi_minor);
    Options options;
    if (const tb_status status = read_options(host, &options)) return status;
    auto driver = std::make_unique<Driver>(host, options);
    const tb_driver_api table = make_table();
    if (const tb_status status = tb_driver_fill(api, &table))
      return fail(host, status, "the host's table of %u bytes is smaller than the ABI's prelude", api->struct_size);
    *self = driver.release()->handle();
    return TB_OK;
  });
}

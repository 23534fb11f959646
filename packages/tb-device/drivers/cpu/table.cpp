// Opening the CPU driver and the table it gives.
#include <string_view>

#include "drivers/common/open_prologue.h"
#include "drivers/cpu/cpu_driver.h"
#include "drivers/cpu/driver.h"
#include "drivers/cpu/ipc/shared_file.h"

namespace tb::drivers::cpu {
namespace {

constexpr uint64_t offered_groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_PTR | TB_GROUP_SOA |
                                    TB_GROUP_COPY2D | TB_GROUP_VMM | TB_GROUP_PEER | TB_GROUP_HOSTCALL |
                                    TB_GROUP_NATIVE | TB_GROUP_TIMING | TB_GROUP_MODULE | TB_GROUP_IPC |
                                    TB_GROUP_CLOSURE;

// Every group; IPC where the system lets it work.
uint64_t groups() { return can_move_pages() ? offered_groups : offered_groups & ~uint64_t(TB_GROUP_IPC); }

// A CPU device is never lost, so there is no device_reset.
constexpr bool is_defined(std::string_view, std::string_view name) { return name != "device_reset"; }

tb_driver_api make_table() {
  tb_driver_api table = start_table(groups());
#include "drivers/common/fill_table.inc"
  return table;
}

} // namespace

extern "C" tb_status tb_cpu_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  if (const tb_status status = check_open("CPU", host, api, self)) return status;
  return guarded(host, [&]() -> tb_status {
    Options options;
    if (const tb_status status = read_options(host, &options)) return status;
    auto driver = std::make_unique<Driver>(host, options);
    if (const tb_status status = hand_out(host, make_table(), api)) return status;
    *self = driver.release()->handle();
    return TB_OK;
  });
}

} // namespace tb::drivers::cpu

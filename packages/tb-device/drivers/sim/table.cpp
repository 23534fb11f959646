// Opening the sim driver and the table it gives.
#include <string_view>

#include "drivers/common/open_prologue.h"
#include "drivers/sim/driver.h"
#include "drivers/sim/sim_driver.h"

namespace tb::drivers::sim {
namespace {

constexpr uint64_t offered_groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_PTR | TB_GROUP_SOA |
                                    TB_GROUP_COPY2D | TB_GROUP_VMM | TB_GROUP_PEER | TB_GROUP_HOSTCALL |
                                    TB_GROUP_NATIVE | TB_GROUP_TIMING | TB_GROUP_MODULE | TB_GROUP_CLOSURE;

constexpr bool is_defined(std::string_view group, std::string_view) { return group != "IPC"; }

tb_driver_api make_table() {
  tb_driver_api table = start_table(offered_groups);
#include "drivers/common/fill_table.inc"
  return table;
}

} // namespace

extern "C" tb_status tb_sim_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  if (const tb_status status = check_open("sim", host, api, self)) return status;
  return guarded(host, [&]() -> tb_status {
    Options options;
    if (const tb_status status = read_options(host, &options)) return status;
    auto driver = std::make_unique<Driver>(host, options);
    if (const tb_status status = hand_out(host, make_table(), api)) return status;
    *self = driver.release()->handle();
    return TB_OK;
  });
}

} // namespace tb::drivers::sim

// Completes a driver's table, and ends it.
#include "loading/complete_table.h"

#include "emulation/emulation.h"
#include "host/errors.h"
#include "interception/interception.h"

namespace tb::device {
namespace {

template <Slot S, class... A> tb_status absent(tb_driver *self, A...) { return not_offered(self, S); }

template <Slot S, class... A> void fill_absent(tb_status (*&slot)(tb_driver *, A...)) {
  if (!slot) slot = absent<S, A...>;
}

} // namespace

void complete_table(Driver &driver) {
  driver.table = driver.offered;
  driver.table.struct_size = sizeof(tb_driver_api);
  driver.emulation = std::make_shared<Emulation>();
  emulate_facts(driver);
  emulate_memory(driver);
  emulate_copies(driver);
  emulate_host_calls(driver);
  emulate_streams(driver);
#define TB_SLOT(group, need, name, parameters, arguments) fill_absent<Slot::name>(driver.table.name);
#define TB_SLOT0(group, need, name) fill_absent<Slot::name>(driver.table.name);
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
  track_streams(driver);
  wait_without_lock(driver);
  note_first_use(driver);
}

tb_status close_driver(Driver &driver) {
  std::lock_guard lock(driver.closing);
  if (!driver.open.load()) return TB_OK;
  if (uint64_t live = driver.emulation ? driver.emulation->live_objects() : 0)
    return fail(TB_FAILED_PRECONDITION, -1, driver.name.c_str(), "close",
                "%llu streams, events or allocations are still alive. Release them first",
                static_cast<unsigned long long>(live));
  clear_error();
  if (tb_status status = driver.offered.close(driver.self); status != TB_OK) return status;
  driver.open.store(false);
  refuse_everything(driver);
  unregister_driver(&driver);
  return TB_OK;
}

} // namespace tb::device

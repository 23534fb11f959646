// Completes a driver's table.
#include "emulation/emulation.h"

#include "host/errors.h"

namespace tb {
namespace {

template <Slot S, class... A> tb_status absent(tb_driver *self, A...) { return not_offered(self, S); }

template <Slot S, class... A> void fill_absent(tb_status (*&slot)(tb_driver *, A...)) {
  if (!slot) slot = absent<S, A...>;
}

tb_status device_query(tb_driver *self, int32_t device, const char *key, int64_t *) {
  Driver &driver = driver_of(self);
  if (tb_status status = check_device(driver, device, Slot::device_query)) return status;
  return fail(TB_NOT_FOUND, device, driver.name.c_str(), "device_query", "%s answers no keys, so not '%s' either",
              driver.name.c_str(), key ? key : "");
}

tb_status device_activate(tb_driver *self, int32_t device) {
  return check_device(driver_of(self), device, Slot::device_activate);
}

tb_status get_extension(tb_driver *self, const char *name, uint32_t, void *, uint32_t) {
  Driver &driver = driver_of(self);
  return fail(TB_NOT_FOUND, -1, driver.name.c_str(), "get_extension", "%s has no extensions, so not '%s' either",
              driver.name.c_str(), name ? name : "");
}

} // namespace

tb_status not_offered(tb_driver *self, Slot slot, tb_status status) {
  const char *name = driver_of(self).name.c_str();
  if (driver_of(self).offers(facts(slot).group_bit))
    return fail(status, -1, name, facts(slot).name, "%s has no function %s (optional in group %s)", name,
                facts(slot).name, facts(slot).group);
  return fail(status, -1, name, facts(slot).name, "%s has no function %s (group %s not offered)", name,
              facts(slot).name, facts(slot).group);
}

void stand_in_facts(Driver &driver) {
  tb_driver_api &table = driver.table;
  if (!table.device_query) table.device_query = device_query;
  if (!table.device_activate) table.device_activate = device_activate;
  if (!table.get_extension) table.get_extension = get_extension;
}

void complete_table(Driver &driver) {
  driver.table = driver.offered;
  driver.table.struct_size = sizeof(tb_driver_api);
  driver.standins = std::make_unique<StandIns>();
  stand_in_facts(driver);
  stand_in_memory(driver);
  stand_in_copies(driver);
  stand_in_streams(driver);
#define TB_SLOT(group, need, name, parameters, arguments) fill_absent<Slot::name>(driver.table.name);
#define TB_SLOT0(group, need, name) fill_absent<Slot::name>(driver.table.name);
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
  watch_streams(driver);
  wait_without_lock(driver);
  watch_first_use(driver);
}

} // namespace tb

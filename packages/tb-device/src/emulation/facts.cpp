// Answers optional questions of CORE, and the text of functions that are not offered.
#include "emulation/emulation.h"

#include "host/errors.h"

namespace tb::device {
namespace {

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

void emulate_facts(Driver &driver) {
  tb_driver_api &table = driver.table;
  if (!table.device_query) table.device_query = device_query;
  if (!table.device_activate) table.device_activate = device_activate;
  if (!table.get_extension) table.get_extension = get_extension;
}

tb_status unknown_handle(const Driver &driver, Slot slot, const char *what) {
  return fail(TB_INVALID_ARGUMENT, -1, driver.name.c_str(), facts(slot).name, "this is no live %s of %s", what,
              driver.name.c_str());
}

} // namespace tb::device

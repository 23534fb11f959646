// The table's functions about addresses apart from memory (VMM).
#include "drivers/sim/driver.h"

namespace tb::drivers::sim::slots {

tb_status vmm_granularity(tb_driver *self, int32_t number, uint64_t *out_minimum, uint64_t *out_recommended) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.device(number, &status)) return status;
    if ((status = driver.require(out_minimum, "out_minimum"))) return status;
    if ((status = driver.require(out_recommended, "out_recommended"))) return status;
    *out_minimum = *out_recommended = VirtualMemory::granularity;
    return TB_OK;
  });
}

tb_status vmm_reserve(tb_driver *self, uint64_t size, uint64_t alignment, void *hint, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    return driver.memory.virtual_memory.reserve(size, alignment, hint, out);
  });
}

tb_status vmm_release(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) { return driver.memory.virtual_memory.release(address, size); });
}

tb_status vmm_create(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, tb_physical **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, 0))) return status;
    return driver.memory.virtual_memory.create(number, size, out);
  });
}

tb_status vmm_destroy(tb_driver *self, tb_physical *physical) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(physical, "physical")) return status;
    return driver.memory.virtual_memory.destroy(physical);
  });
}

tb_status vmm_map(tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t offset) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(physical, "physical")) return status;
    return driver.memory.virtual_memory.map(address, size, physical, offset);
  });
}

tb_status vmm_unmap(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) { return driver.memory.virtual_memory.unmap(address, size); });
}

tb_status vmm_set_access(tb_driver *self, void *address, uint64_t size, const int32_t *numbers, uint32_t count,
                         uint32_t access) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (count == 0) return fail(driver.host, TB_INVALID_ARGUMENT, "device_count is 0: name a device");
    tb_status status = driver.require(numbers, "devices");
    if (status) return status;
    uint32_t named = 0;
    for (uint32_t place = 0; place < count; ++place) {
      if (!driver.usable(numbers[place], &status)) return status;
      named |= uint32_t(1) << numbers[place];
    }
    return driver.memory.virtual_memory.set_access(address, size, named, access);
  });
}

} // namespace tb::drivers::sim::slots

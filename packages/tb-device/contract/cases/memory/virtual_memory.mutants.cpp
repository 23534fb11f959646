// Drivers whose virtual memory breaks a rule.
#include "contract/mutant.h"

namespace tb::contract::virtual_memory_mutants {
namespace {

// The given status as success.
tb_status forgiven(tb_status status, tb_status which) {
  return status == which ? static_cast<tb_status>(TB_OK) : status;
}

TB_MUTANT(vmm_granularity_reversed, "cpu", "vmm_granularity.1", "VMM-01",
          "the recommended granularity is below the minimum") {
  api.vmm_granularity = [](tb_driver *self, int32_t device, uint64_t *minimum, uint64_t *recommended) {
    const tb_status status = real().vmm_granularity(self, device, minimum, recommended);
    if (status == TB_OK) *recommended = *minimum / 2;
    return status;
  };
}

TB_MUTANT(vmm_reserve_charges, "cpu", "vmm_reserve.1", "VMM-02", "a range larger than the memory is refused") {
  api.vmm_reserve = [](tb_driver *self, uint64_t size, uint64_t alignment, void *hint, void **out) {
    uint64_t free = 0, total = 0;
    real().device_memory_info(self, 0, &free, &total);
    return real().vmm_reserve(self, size > total ? UINT64_MAX : size, alignment, hint, out);
  };
}

TB_MUTANT(vmm_remap_other_bytes, "cpu", "vmm_map.1", "VMM-07", "a mapping always begins at the memory's start") {
  api.vmm_map = [](tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t) {
    return real().vmm_map(self, address, size, physical, 0);
  };
}

TB_MUTANT(vmm_map_over, "cpu", "vmm_map.3", "VMM-08", "mapping over a mapping is taken") {
  api.vmm_map = [](tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t offset) {
    return forgiven(real().vmm_map(self, address, size, physical, offset), TB_ALREADY_EXISTS);
  };
}

TB_MUTANT(vmm_fresh_access, "cpu", "vmm_map.2", "VMM-16", "a fresh mapping can be read and written") {
  api.vmm_map = [](tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t offset) {
    const tb_status status = real().vmm_map(self, address, size, physical, offset);
    const int32_t device = 0;
    return status == TB_OK ? real().vmm_set_access(self, address, size, &device, 1, 3) : status;
  };
}

TB_MUTANT(vmm_release_mapped, "cpu", "vmm_release.1", "VMM-09", "a range with mappings is released") {
  api.vmm_release = [](tb_driver *self, void *address, uint64_t size) {
    return forgiven(real().vmm_release(self, address, size), TB_FAILED_PRECONDITION);
  };
}

TB_MUTANT(vmm_create_free_of_charge, "cpu", "vmm_create.1", "VMM-10", "physical memory is not seen in memory_info") {
  static uint64_t first_free = 0;
  first_free = 0;
  api.device_memory_info = [](tb_driver *self, int32_t device, uint64_t *out_free, uint64_t *out_total) {
    const tb_status status = real().device_memory_info(self, device, out_free, out_total);
    if (status == TB_OK && !first_free) first_free = *out_free;
    if (status == TB_OK) *out_free = first_free;
    return status;
  };
}

TB_MUTANT(vmm_create_any_size, "cpu", "vmm_create.2", "VMM-11", "odd sizes are rounded up") {
  api.vmm_create = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, tb_physical **out) {
    uint64_t minimum = 1, recommended = 1;
    real().vmm_granularity(self, device, &minimum, &recommended);
    return real().vmm_create(self, device, (size + minimum - 1) / minimum * minimum, flags, out);
  };
}

TB_MUTANT(vmm_unmap_part, "cpu", "vmm_unmap.1", "VMM-13", "unmapping a part of a mapping is taken") {
  api.vmm_unmap = [](tb_driver *self, void *address, uint64_t size) {
    return forgiven(real().vmm_unmap(self, address, size), TB_INVALID_ARGUMENT);
  };
}

TB_MUTANT(vmm_access_over_gaps, "cpu", "vmm_set_access.2", "VMM-14", "access for a range with a gap is taken") {
  api.vmm_set_access = [](tb_driver *self, void *address, uint64_t size, const int32_t *devices, uint32_t count,
                          uint32_t access) {
    return forgiven(real().vmm_set_access(self, address, size, devices, count, access), TB_INVALID_ARGUMENT);
  };
}

} // namespace
} // namespace tb::contract::virtual_memory_mutants

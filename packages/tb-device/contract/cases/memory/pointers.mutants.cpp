// Drivers that report wrong facts about pointers.
#include "contract/mutant.h"

namespace tb::contract::pointers_mutants {
namespace {

// The given status as success.
tb_status forgiven(tb_status status, tb_status which) {
  return status == which ? static_cast<tb_status>(TB_OK) : status;
}

TB_MUTANT(pointer_base_is_pointer, "cpu", "mem_get_info.1", "PTR-01",
          "the base of an interior pointer is the pointer itself") {
  api.mem_get_info = [](tb_driver *self, const void *ptr, tb_pointer_info *out) {
    const tb_status status = real().mem_get_info(self, ptr, out);
    if (status == TB_OK) out->base = const_cast<void *>(ptr);
    return status;
  };
}

TB_MUTANT(pinned_is_device_memory, "cpu", "mem_get_info.1", "PTR-02", "pinned memory is reported as device memory") {
  api.mem_get_info = [](tb_driver *self, const void *ptr, tb_pointer_info *out) {
    const tb_status status = real().mem_get_info(self, ptr, out);
    if (status == TB_OK) out->kind = TB_POINTER_DEVICE;
    return status;
  };
}

TB_MUTANT(every_pointer_known, "cpu", "mem_get_info.2", "PTR-03", "a pointer of anybody's is found") {
  api.mem_get_info = [](tb_driver *self, const void *ptr, tb_pointer_info *out) {
    return forgiven(real().mem_get_info(self, ptr, out), TB_NOT_FOUND);
  };
}

} // namespace
} // namespace tb::contract::pointers_mutants

// mem.cpp -- cases about device memory of the group CORE.
#include "kit.h"

namespace tb::contract {

TB_CASE(MEM, 01, TB_GROUP_CORE, "mem_alloc.1", "memory is aligned as the device says") {
  const uint64_t alignment = kit.info().alignment;
  for (uint64_t size : {1, 7, 4097}) {
    kit::Block block(kit, size);
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(block.data()) % alignment, 0u);
  }
}

} // namespace tb::contract

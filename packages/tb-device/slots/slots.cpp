// The driver table as data.
#include "slots/slots.h"

#include "tb/component.h"

namespace tb {

#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  {#group, TB_GROUP_##group, need, #name, offsetof(tb_driver_api, name)},
#define TB_SLOT0(group, need, name) {#group, TB_GROUP_##group, need, #name, offsetof(tb_driver_api, name)},
#define REQUIRED true
#define OPTIONAL false
const SlotFacts slot_facts[slot_count] = {
#include "tb/driver_slots.inc"
};
#undef REQUIRED
#undef OPTIONAL
#undef TB_SLOT
#undef TB_SLOT0

uint64_t slots_hash() { return tb_slots_hash(); }

AnyFunction slot_value(const tb_driver_api &api, Slot slot) {
  AnyFunction value;
  memcpy(&value, reinterpret_cast<const char *>(&api) + facts(slot).offset, sizeof value);
  return value;
}

uint64_t groups_needed_by(uint64_t group_bit) {
  switch (group_bit) {
  case TB_GROUP_SOA:
  case TB_GROUP_HOSTCALL:
  case TB_GROUP_NATIVE:
  case TB_GROUP_TIMING:
  case TB_GROUP_MODULE:
  case TB_GROUP_IPC:
  case TB_GROUP_CLOSURE:
    return TB_GROUP_ASYNC; // their functions take streams or events
  default:
    return 0;
  }
}

} // namespace tb

// Reads the slots of a driver table.
#include "slots/slots.h"

#include <cstring>

#include "tb/component.h"

namespace tb::device {

uint64_t slots_hash() { return tb_slots_hash(); }

AnyFunction slot_value(const tb_driver_api &api, Slot slot) {
  AnyFunction value;
  std::memcpy(&value, reinterpret_cast<const char *>(&api) + facts(slot).offset, sizeof value);
  return value;
}

const std::vector<Group> &all_groups() {
  static const std::vector<Group> groups = [] {
    std::vector<Group> found;
    uint64_t seen = 0;
    for (const SlotFacts &slot : driver_slots) {
      if (!(seen & slot.group_bit)) found.push_back({slot.group, slot.group_bit});
      seen |= slot.group_bit;
    }
    return found;
  }();
  return groups;
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

} // namespace tb::device

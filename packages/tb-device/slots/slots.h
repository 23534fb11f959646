// The driver table as data: one entry a function, generated from tb/driver_slots.inc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tb/driver.h"

namespace tb {

#define TB_SLOT(group, need, name, parameters, arguments) name,
#define TB_SLOT0(group, need, name) name,
enum class Slot : int {
#include "tb/driver_slots.inc"
  count
};
#undef TB_SLOT
#undef TB_SLOT0

inline constexpr int slot_count = static_cast<int>(Slot::count);

struct SlotFacts {
  const char *group;
  uint64_t group_bit;
  bool required; // in its group
  const char *name;
  size_t offset; // in tb_driver_api
};

extern const SlotFacts slot_facts[slot_count];

inline const SlotFacts &facts(Slot slot) { return slot_facts[static_cast<int>(slot)]; }

// Of groups, needs, names, parameters and order: two modules built from different headers differ here.
uint64_t slots_hash();

// What a slot holds, as one pointer; NULL when absent.
using AnyFunction = void (*)();
AnyFunction slot_value(const tb_driver_api &api, Slot slot);

// The other groups without which a group means nothing.
uint64_t groups_needed_by(uint64_t group_bit);

} // namespace tb

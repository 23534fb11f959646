// The functions of the driver table and of the extension tb.graph as data, generated from tb/driver_slots.inc and
// tb/graph_slots.inc. The host, the layers and the contract kit read them here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tb/driver.h"
#include "tb/graph.h"

namespace tb::device {

#define TB_SLOT(group, need, name, parameters, arguments) name,
#define TB_SLOT0(group, need, name) name,
// The functions of the driver table come first, in its order.
enum class Slot : int {
#include "tb/driver_slots.inc"
#include "tb/graph_slots.inc"
  count
};
#undef TB_SLOT
#undef TB_SLOT0

inline constexpr int slot_count = static_cast<int>(Slot::count);

struct SlotFacts {
  const char *group;
  uint64_t group_bit; // 0: of tb.graph
  bool required;      // in its group
  const char *name;
  size_t offset;                  // in its table
  const char *parameters;         // with their types: "(int32_t device, void *ptr)"
  std::string_view argument_list; // "(device, ptr)"
};

#define REQUIRED true
#define OPTIONAL false
inline constexpr SlotFacts slot_facts[slot_count] = {
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  {#group, TB_GROUP_##group, need, #name, offsetof(tb_driver_api, name), #parameters, #arguments},
#define TB_SLOT0(group, need, name) {#group, TB_GROUP_##group, need, #name, offsetof(tb_driver_api, name), "()", "()"},
#include "tb/driver_slots.inc"
#undef TB_SLOT0
#undef TB_SLOT
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  {#group, 0, need, #name, offsetof(tb_graph_api, name), #parameters, #arguments},
#include "tb/graph_slots.inc"
#undef TB_SLOT
};
#undef REQUIRED
#undef OPTIONAL

inline constexpr int driver_slot_count = static_cast<int>(
    std::count_if(std::begin(slot_facts), std::end(slot_facts), [](const SlotFacts &slot) { return slot.group_bit; }));
// Those of the driver table.
inline constexpr std::span<const SlotFacts> driver_slots(slot_facts, driver_slot_count);

constexpr const SlotFacts &facts(Slot slot) { return slot_facts[static_cast<int>(slot)]; }
constexpr const char *name_of(Slot slot) { return facts(slot).name; }

// Slot::count if there is no function of this name.
constexpr Slot slot_named(std::string_view name) {
  for (int place = 0; place < slot_count; ++place)
    if (name == slot_facts[place].name) return static_cast<Slot>(place);
  return Slot::count;
}

// The name of an argument by its place after self; empty past the last.
constexpr std::string_view argument_of(Slot slot, int place) {
  const std::string_view names = facts(slot).argument_list;
  for (size_t at = 1; at < names.size();) {
    const size_t end = names.find_first_of(",)", at);
    if (place-- == 0) return names.substr(at, end - at);
    at = std::min(names.find_first_not_of(", )", end), names.size());
  }
  return {};
}

// The place of an argument after self by its name; -1 if there is no such argument.
constexpr int place_of(Slot slot, std::string_view argument) {
  for (int place = 0; !argument_of(slot, place).empty(); ++place)
    if (argument_of(slot, place) == argument) return place;
  return -1;
}

// Whether the function gives its result through a pointer.
constexpr bool has_result(Slot slot) {
  return std::string_view(facts(slot).parameters).find("*out") != std::string_view::npos;
}

// A hash of groups, needs, names, parameters and order: it differs between modules that were built with different
// headers.
uint64_t slots_hash();

// The pointer in a slot of the driver table; NULL when the driver has no such function.
using AnyFunction = void (*)();
AnyFunction slot_value(const tb_driver_api &api, Slot slot);

// The groups of the driver table in the order of their bits. The functions of one need not stand together: one that was
// added later is at the end of the table.
struct Group {
  const char *name;
  uint64_t bit;
};
const std::vector<Group> &all_groups();

// The other groups without which a group is useless.
uint64_t groups_needed_by(uint64_t group_bit);

} // namespace tb::device

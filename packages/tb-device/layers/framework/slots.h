// The functions that a layer stands in front of, as data: the driver table's and tb.graph's.
#pragma once

#include <algorithm>
#include <string_view>

#include "tb/driver.h"
#include "tb/graph.h"

namespace tb::layers {

#define TB_SLOT(group, need, name, parameters, arguments) name,
#define TB_SLOT0(group, need, name) name,
enum class Slot : int {
#include "tb/driver_slots.inc"
#include "tb/graph_slots.inc"
  count
};
#undef TB_SLOT
#undef TB_SLOT0

inline constexpr int slot_count = static_cast<int>(Slot::count);

// A function as a type, for overloads.
template <Slot S> struct On {
  static constexpr Slot slot = S;
};

struct SlotText {
  const char *name;
  const char *parameters; // with their types: "(int32_t device, void *ptr)"
  std::string_view names; // "(device, ptr)"
};

#define TB_SLOT(group, need, name, parameters, arguments) {#name, #parameters, #arguments},
#define TB_SLOT0(group, need, name) {#name, "()", "()"},
inline constexpr SlotText slot_texts[slot_count] = {
#include "tb/driver_slots.inc"
#include "tb/graph_slots.inc"
};
#undef TB_SLOT
#undef TB_SLOT0

constexpr const char *name_of(Slot slot) { return slot_texts[static_cast<int>(slot)].name; }

// Slot::count when there is none of the name.
constexpr Slot slot_named(std::string_view name) {
  for (int place = 0; place < slot_count; ++place)
    if (name == slot_texts[place].name) return static_cast<Slot>(place);
  return Slot::count;
}

// The name of an argument by its place after self; empty past the last.
constexpr std::string_view argument_of(Slot slot, int place) {
  const std::string_view names = slot_texts[static_cast<int>(slot)].names;
  for (size_t at = 1; at < names.size();) {
    const size_t end = names.find_first_of(",)", at);
    if (place-- == 0) return names.substr(at, end - at);
    at = std::min(names.find_first_not_of(", )", end), names.size());
  }
  return {};
}

// The place of an argument by its name, after self; -1 when there is none.
constexpr int place_of(Slot slot, std::string_view argument) {
  for (int place = 0; !argument_of(slot, place).empty(); ++place)
    if (argument_of(slot, place) == argument) return place;
  return -1;
}

// Gives its result through a pointer.
constexpr bool has_result(Slot slot) {
  return std::string_view(slot_texts[static_cast<int>(slot)].parameters).find("*out") != std::string_view::npos;
}

// Takes something back that another function gave.
constexpr bool is_release(Slot slot) {
  switch (slot) {
  case Slot::mem_free:
  case Slot::mem_free_host:
  case Slot::mem_free_async:
  case Slot::mem_unregister_host:
  case Slot::stream_destroy:
  case Slot::event_destroy:
  case Slot::vmm_release:
  case Slot::vmm_destroy:
  case Slot::vmm_unmap:
  case Slot::module_unload:
  case Slot::ipc_close_memory:
  case Slot::closure_cancel:
  case Slot::graph_destroy:
  case Slot::graph_exec_destroy:
    return true;
  default:
    return false;
  }
}

// Waits for work that was queued.
constexpr bool is_wait(Slot slot) {
  return slot == Slot::device_synchronize || slot == Slot::stream_synchronize || slot == Slot::event_synchronize;
}

} // namespace tb::layers

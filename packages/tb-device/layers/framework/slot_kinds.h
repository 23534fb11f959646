// What layers know about the functions that they forward.
#pragma once

#include "slots/slots.h"

namespace tb::layers {

using device::argument_of;
using device::has_result;
using device::name_of;
using device::place_of;
using device::Slot;
using device::slot_count;
using device::slot_named;

// A function as a type, for overloads.
template <Slot S> struct On {
  static constexpr Slot slot = S;
};

// Whether the function takes back what another one gave.
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

// Whether the function waits for queued work.
constexpr bool is_wait(Slot slot) {
  return slot == Slot::device_synchronize || slot == Slot::stream_synchronize || slot == Slot::event_synchronize;
}

} // namespace tb::layers

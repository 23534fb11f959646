// Which objects the functions of the table make and take back, for the layers that track them.
#pragma once

#include <cstdint>
#include <tuple>

#include "layers/framework/slot_kinds.h"

namespace tb::layers {

enum class Kind : int {
  none,
  block,
  host_block,
  registered_host,
  stream,
  event,
  reservation,
  physical,
  mapping,
  module,
  imported_block,
  closure_storage,
  graph,
  executable,
  count
};

constexpr const char *name_of(Kind kind) {
  constexpr const char *names[] = {"nothing",
                                   "block of device memory",
                                   "block of pinned memory",
                                   "registered range of host memory",
                                   "stream",
                                   "event",
                                   "reserved address range",
                                   "physical memory object",
                                   "mapping",
                                   "module",
                                   "imported block of memory",
                                   "closure storage",
                                   "graph",
                                   "executable graph"};
  return names[static_cast<int>(kind)];
}

// The kind of object that the function makes.
constexpr Kind made_by(Slot slot) {
  switch (slot) {
  case Slot::mem_alloc:
  case Slot::mem_alloc_async:
    return Kind::block;
  case Slot::mem_alloc_host:
    return Kind::host_block;
  case Slot::mem_register_host:
    return Kind::registered_host;
  case Slot::stream_create:
  case Slot::stream_wrap:
    return Kind::stream;
  case Slot::event_create:
  case Slot::ipc_import_event:
    return Kind::event;
  case Slot::vmm_reserve:
    return Kind::reservation;
  case Slot::vmm_create:
    return Kind::physical;
  case Slot::vmm_map:
    return Kind::mapping;
  case Slot::module_load:
    return Kind::module;
  case Slot::ipc_import_memory:
    return Kind::imported_block;
  case Slot::closure_reserve:
    return Kind::closure_storage;
  case Slot::capture_end:
    return Kind::graph;
  case Slot::graph_instantiate:
    return Kind::executable;
  default:
    return Kind::none;
  }
}

// The kind of object that the function ends.
constexpr Kind taken_by(Slot slot) {
  switch (slot) {
  case Slot::mem_free:
  case Slot::mem_free_async:
    return Kind::block;
  case Slot::mem_free_host:
    return Kind::host_block;
  case Slot::mem_unregister_host:
    return Kind::registered_host;
  case Slot::stream_destroy:
    return Kind::stream;
  case Slot::event_destroy:
    return Kind::event;
  case Slot::vmm_release:
    return Kind::reservation;
  case Slot::vmm_destroy:
    return Kind::physical;
  case Slot::vmm_unmap:
    return Kind::mapping;
  case Slot::module_unload:
    return Kind::module;
  case Slot::ipc_close_memory:
    return Kind::imported_block;
  case Slot::closure_commit:
  case Slot::closure_cancel:
    return Kind::closure_storage;
  case Slot::graph_destroy:
    return Kind::graph;
  case Slot::graph_exec_destroy:
    return Kind::executable;
  default:
    return Kind::none;
  }
}

// argument_at<place_of(S, "size")>(arguments...)
template <int Place, class... A> constexpr auto argument_at(A... arguments) {
  return std::get<static_cast<size_t>(Place)>(std::tuple<A...>(arguments...));
}

// The object that a successful call made.
template <Slot S, class... A> void *made_object(A... arguments) {
  if constexpr (place_of(S, "out") >= 0)
    return static_cast<void *>(*argument_at<place_of(S, "out")>(arguments...));
  else if constexpr (place_of(S, "ptr") >= 0)
    return argument_at<place_of(S, "ptr")>(arguments...);
  else
    return argument_at<place_of(S, "address")>(arguments...);
}

// The object that a call takes back.
template <Slot S, class... A> void *taken_object(A... arguments) {
  if constexpr (place_of(S, "ptr") >= 0)
    return argument_at<place_of(S, "ptr")>(arguments...);
  else if constexpr (place_of(S, "storage") >= 0)
    return argument_at<place_of(S, "storage")>(arguments...);
  else
    return static_cast<void *>(argument_at<0>(arguments...));
}

// 0 for functions without a size.
template <Slot S, class... A> uint64_t size_argument([[maybe_unused]] A... arguments) {
  if constexpr (place_of(S, "size") >= 0)
    return argument_at<place_of(S, "size")>(arguments...);
  else
    return 0;
}

} // namespace tb::layers

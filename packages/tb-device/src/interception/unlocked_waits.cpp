// Calls functions that may wait for queued work without Python's lock.
#include <type_traits>

#include "host/gil.h"
#include "interception/interception.h"

namespace tb::device {
namespace {

template <auto Member, class... A> tb_status unlocked(tb_driver *self, A... arguments) {
  const tb_driver_api &table = driver_of(self).locked;
  const UnlockedIfHeld waiting;
  return (table.*Member)(self, arguments...);
}

// Work that is done is only queried: giving the lock up and taking it back would cost more than the wait.
template <auto Member, auto Query, class Handle> tb_status unlocked_unless_done(tb_driver *self, Handle handle) {
  const tb_driver_api &table = driver_of(self).locked;
  void *given_up = nullptr;
  if (is_lock_held()) {
    if (tb_status status = (table.*Query)(self, handle); status != TB_NOT_READY) return status;
    given_up = before_wait();
  }
  const tb_status status = (table.*Member)(self, handle);
  after_wait(given_up);
  return status;
}

// Functions that may wait in a driver with a vendor's queue: those that take a stream for room in it, those that give
// memory back for its work.
constexpr bool may_wait(Slot slot) {
  switch (slot) {
  case Slot::device_reset:
  case Slot::mem_alloc:
  case Slot::mem_free:
  case Slot::mem_alloc_host:
  case Slot::mem_free_host:
  case Slot::mem_register_host:
  case Slot::mem_unregister_host:
  case Slot::vmm_create:
  case Slot::vmm_destroy:
  case Slot::vmm_map:
  case Slot::vmm_unmap:
  case Slot::module_load:
  case Slot::module_unload:
  case Slot::ipc_close_memory:
    return true;
  default:
    return false;
  }
}

template <Slot S, auto Member, class... A> void give_lock_up(tb_status (*&slot)(tb_driver *, A...)) {
  constexpr bool takes_stream = (std::is_same_v<A, tb_stream *> || ...);
  constexpr bool asks = S == Slot::stream_query || S == Slot::stream_native;
  if constexpr (may_wait(S) || (takes_stream && !asks)) slot = unlocked<Member, A...>;
}

} // namespace

void wait_without_lock(Driver &driver) {
  tb_driver_api &table = driver.table;
  driver.locked = table;
  if (!driver.offers(TB_GROUP_CLOSURE)) { // else it has its own queue, and calls tb_host.before_wait
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (driver.offers(TB_GROUP_##group)) give_lock_up<Slot::name, &tb_driver_api::name>(table.name);
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
  }
  table.device_synchronize = unlocked<&tb_driver_api::device_synchronize, int32_t>;
  table.stream_synchronize =
      unlocked_unless_done<&tb_driver_api::stream_synchronize, &tb_driver_api::stream_query, tb_stream *>;
  table.event_synchronize =
      unlocked_unless_done<&tb_driver_api::event_synchronize, &tb_driver_api::event_query, tb_event *>;
}

} // namespace tb::device

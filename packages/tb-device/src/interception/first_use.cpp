// Notes the first call of a driver that is more than a question: a forked child cannot use the driver after it.
//
// Until then every function that makes or does something notes the use and replaces all of these functions by the real
// ones, so that later calls cost nothing.
#include <atomic>

#include "interception/interception.h"

namespace tb::device {
namespace {

constexpr bool is_question(Slot slot) {
  switch (slot) {
  case Slot::close:
  case Slot::get_info:
  case Slot::device_count:
  case Slot::device_get_info:
  case Slot::device_memory_info:
  case Slot::device_query:
  case Slot::get_extension: // its functions take streams
  case Slot::device_synchronize:
  case Slot::stream_default:
  case Slot::stream_query:
  case Slot::stream_synchronize:
  case Slot::mem_get_info:
  case Slot::vmm_granularity:
  case Slot::peer_can_access:
    return true;
  default:
    return false;
  }
}

void note_use(Driver &driver);

template <auto Member, class... A> tb_status first_use(tb_driver *self, A... arguments) {
  Driver &driver = driver_of(self);
  note_use(driver);
  return (driver.in_use.*Member)(self, arguments...);
}

template <Slot S, auto Member, class... A> void watch(tb_status (*&slot)(tb_driver *, A...)) {
  if constexpr (!is_question(S)) slot = first_use<Member, A...>;
}

// Others may have replaced it meanwhile: by refusals, or by functions that note times.
template <Slot S, auto Member, class... A>
void stop_noting(tb_status (*&slot)(tb_driver *, A...), tb_status (*real)(tb_driver *, A...)) {
  if constexpr (!is_question(S)) {
    tb_status (*expected)(tb_driver *, A...) = first_use<Member, A...>;
    std::atomic_ref(slot).compare_exchange_strong(expected, real);
  }
}

void note_use(Driver &driver) {
  driver.used.store(true);
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  stop_noting<Slot::name, &tb_driver_api::name>(driver.table.name, driver.in_use.name);
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

} // namespace

void note_first_use(Driver &driver) {
  driver.in_use = driver.table;
  if (!driver.survives_fork()) return;
#define TB_SLOT(group, need, name, parameters, arguments) watch<Slot::name, &tb_driver_api::name>(driver.table.name);
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

} // namespace tb::device

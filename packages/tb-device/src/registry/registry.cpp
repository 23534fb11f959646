// Registers drivers, and makes their tables refuse calls.
#include "registry/registry.h"

#include <pthread.h>

#include "host/errors.h"

namespace tb::device {

std::atomic<Ended> ended{Ended::no};
int32_t forked = 0;

namespace {

std::atomic<Driver *> places[driver_limit];
std::mutex registering;

template <Slot S, class... A> tb_status refused(tb_driver *self, A...) {
  const Driver *driver = find_driver(self);
  set_error(TB_FAILED_PRECONDITION, 0, -1, driver ? driver->name.c_str() : nullptr, facts(S).name, refusal_text());
  return TB_FAILED_PRECONDITION;
}

// Another thread may be about to read the pointer: one store, never a torn one.
template <Slot S, class... A> void refuse(tb_status (*&slot)(tb_driver *, A...)) {
  std::atomic_ref(slot).store(&refused<S, A...>, std::memory_order_release);
}

void in_forked_child() {
  bool lost = false;
  for (const auto &place : places) {
    const Driver *driver = place.load(std::memory_order_relaxed);
    lost |= driver && !driver->survives_fork();
  }
  if (!lost) return; // nothing is open, or was asked more than questions: the child has it too
  for (const auto &place : places)
    if (Driver *driver = place.load(std::memory_order_relaxed)) refuse_everything(*driver);
  forked = 1;
  ended.store(Ended::forked, std::memory_order_relaxed);
}

} // namespace

bool register_driver(Driver *driver) {
  std::lock_guard lock(registering);
  if (find_driver(driver->self)) return false;
  for (auto &place : places) {
    if (place.load(std::memory_order_relaxed)) continue;
    place.store(driver, std::memory_order_release);
    return true;
  }
  return false;
}

void unregister_driver(Driver *driver) {
  std::lock_guard lock(registering);
  for (auto &place : places)
    if (place.load(std::memory_order_relaxed) == driver) place.store(nullptr, std::memory_order_release);
}

Driver *find_driver(const tb_driver *self) {
  for (auto &place : places) {
    Driver *driver = place.load(std::memory_order_acquire);
    if (driver && driver->self == self) return driver;
  }
  return nullptr;
}

Driver *driver_at(int place) { return places[place].load(std::memory_order_acquire); }

tb_status check_device(const Driver &driver, int32_t device, Slot slot) {
  if (device >= 0 && device < driver.device_count()) return TB_OK;
  return fail(TB_OUT_OF_RANGE, device, driver.name.c_str(), facts(slot).name,
              "there is no device %d; %s has %d, counted from 0", device, driver.name.c_str(), driver.device_count());
}

void refuse_everything(Driver &driver) {
#define TB_SLOT(group, need, name, parameters, arguments) refuse<Slot::name>(driver.table.name);
#define TB_SLOT0(group, need, name) refuse<Slot::name>(driver.table.name);
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

const char *refusal_text() {
  switch (ended.load(std::memory_order_relaxed)) {
  case Ended::forked:
    return "this process was forked after the driver had been used, and the driver's threads and device state do not "
           "exist in the child (with a vendor's library, or with layers, the first question about devices is a use). "
           "Start processes with the 'spawn' method (multiprocessing.set_start_method('spawn')), or fork before the "
           "device is first used";
  case Ended::exiting:
    return "the process is ending and the driver has been closed. Finish device work before Python's exit handlers run";
  default:
    return "the driver has been closed. Load it again with tb_device.load_driver";
  }
}

void watch_fork() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_forked_child); });
}

} // namespace tb::device

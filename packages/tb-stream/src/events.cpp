// events.cpp -- pooled events.
#include "events.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tb::stream {
namespace {

using Key = std::pair<int32_t, uint64_t>; // device, flags

struct Place {
  std::vector<tb_event *> *free; // its pool; NULL if other processes know the event
  bool out;                      // acquired and not released yet
};

// Never destroyed: threads may outlive the static destructors.
struct State {
  std::mutex mutex;
  std::map<Key, std::vector<tb_event *>> free;
  std::unordered_map<tb_event *, Place> all;
  bool watching = false;
  bool ended = false;
};
State &state() {
  static State *made = new State;
  return *made;
}

void shutdown(void *) {
  State &pool = state();
  std::lock_guard guard(pool.mutex);
  pool.ended = true;
  Driver driver;
  if (open_driver(&driver) != TB_OK) return;
  for (auto &[event, place] : pool.all) driver.api->event_destroy(driver.self, event);
  pool.all.clear();
  pool.free.clear();
}

} // namespace

tb_status acquire_event(int32_t device, uint64_t flags, tb_event **out) {
  if (*host.forked) {
    Driver driver;
    if (tb_status status = open_driver(&driver); status != TB_OK) return status;
    return driver.api->event_create(driver.self, device, flags,
                                    out); // the driver's table refuses the call and sets the error text
  }
  State &pool = state();
  {
    std::lock_guard guard(pool.mutex);
    if (pool.ended)
      return fail(TB_FAILED_PRECONDITION, device, "event_acquire", "the process is ending: no more events");
    if (!pool.watching) {
      if (tb_status status = host.on_shutdown(shutdown, nullptr); status != TB_OK) return status;
      pool.watching = true;
    }
    std::vector<tb_event *> &free = pool.free[{device, flags}];
    if (!free.empty()) {
      *out = free.back();
      free.pop_back();
      pool.all[*out].out = true;
      return TB_OK;
    }
  }
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  tb_event *event = nullptr;
  if (tb_status status = driver.api->event_create(driver.self, device, flags, &event); status != TB_OK) return status;
  std::lock_guard guard(pool.mutex);
  if (pool.ended) {
    driver.api->event_destroy(driver.self, event);
    return fail(TB_FAILED_PRECONDITION, device, "event_acquire", "the process is ending: no more events");
  }
  pool.all[event] = {flags & TB_EVENT_IPC ? nullptr : &pool.free[{device, flags}], true};
  *out = event;
  return TB_OK;
}

tb_status import_event(int32_t device, const tb_ipc_handle &handle, tb_event **out) {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  tb_event *event = nullptr;
  if (tb_status status = driver.api->ipc_import_event(driver.self, device, &handle, &event); status != TB_OK)
    return status;
  State &pool = state();
  std::lock_guard guard(pool.mutex);
  tb_status status = TB_OK;
  if (!pool.watching && !pool.ended) {
    status = host.on_shutdown(shutdown, nullptr);
    pool.watching = status == TB_OK;
  }
  if (status != TB_OK || pool.ended) {
    driver.api->event_destroy(driver.self, event);
    return status != TB_OK ? status : fail(TB_FAILED_PRECONDITION, device, "from_ipc_handle", "the process is ending");
  }
  pool.all[event] = {nullptr, true};
  *out = event;
  return TB_OK;
}

tb_status release_event(tb_event *event) {
  if (!event || *host.forked) return TB_OK;
  State &pool = state();
  std::lock_guard guard(pool.mutex);
  if (pool.ended) return TB_OK; // the shutdown has destroyed the event
  auto found = pool.all.find(event);
  if (found == pool.all.end() || !found->second.out)
    return fail(TB_INVALID_ARGUMENT, -1, "event_release",
                found == pool.all.end() ? "the event did not come from event_acquire: destroy it with the driver"
                                        : "the event was released before: release it once");
  if (!found->second.free) {
    pool.all.erase(found);
    Driver driver;
    if (tb_status status = open_driver(&driver); status != TB_OK) return status;
    return driver.api->event_destroy(driver.self, event);
  }
  found->second.out = false;
  found->second.free->push_back(event);
  return TB_OK;
}

bool is_acquired(tb_event *event) {
  State &pool = state();
  std::lock_guard guard(pool.mutex);
  const auto found = pool.all.find(event);
  return found != pool.all.end() && found->second.out;
}

} // namespace tb::stream

// The default driver, the current devices, and the table for other components.
#include "process/process.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "host/errors.h"
#include "host/gil.h"
#include "host/host.h"
#include "interception/interception.h"
#include "loading/complete_table.h"

namespace tb::device {
namespace {

std::atomic<Driver *> chosen{nullptr};
std::atomic<Opener> opener{nullptr};
thread_local int32_t current = 0;

struct Goodbye {
  void (*function)(void *user);
  void *user;
};
std::mutex goodbyes_mutex;
std::vector<Goodbye> goodbyes;

tb_status refuse(const char *function) {
  Driver *driver = default_driver();
  set_error(TB_FAILED_PRECONDITION, 0, -1, driver ? driver->name.c_str() : nullptr, function, refusal_text());
  return TB_FAILED_PRECONDITION;
}

tb_status ensure(const char *function) {
  if (ended.load(std::memory_order_relaxed) != Ended::no) return refuse(function);
  if (default_driver()) return TB_OK;
  Opener open = opener.load();
  if (!open)
    return fail(TB_FAILED_PRECONDITION, -1, nullptr, function,
                "no driver is open yet and the Python package that finds one was not imported. import tb_device first");
  if (tb_status status = open()) return status;
  return default_driver() ? TB_OK : fail(TB_INTERNAL, -1, nullptr, function, "discovery ended without a driver");
}

tb_status driver(const tb_driver_api **out_api, tb_driver **out_self) {
  if (tb_status status = ensure("driver")) return status;
  Driver *found = default_driver();
  *out_api = &found->table;
  *out_self = found->self;
  return TB_OK;
}

int32_t is_open() { return default_driver() && ended.load(std::memory_order_relaxed) == Ended::no; }

// Facts are remembered, so they stay readable in a forked child and while the process ends.
tb_status ensure_known(const char *function) { return default_driver() ? TB_OK : ensure(function); }

tb_status device_count(int32_t *out) {
  if (tb_status status = ensure_known("device_count")) return status;
  *out = default_driver()->device_count();
  return TB_OK;
}

int32_t current_device() { return current; }

tb_status in_range(int32_t device, const char *function) {
  if (tb_status status = ensure_known(function)) return status;
  const Driver &found = *default_driver();
  if (device >= 0 && device < found.device_count()) return TB_OK;
  return fail(TB_OUT_OF_RANGE, device, found.name.c_str(), function, "there is no device %d; %s has %d, counted from 0",
              device, found.name.c_str(), found.device_count());
}

tb_status set_current_device(int32_t device) {
  if (tb_status status = in_range(device, "set_current_device")) return status;
  current = device;
  return TB_OK;
}

tb_status device_info(int32_t device, tb_device_info *out) {
  if (tb_status status = in_range(device, "device_info")) return status;
  uint32_t size = out->struct_size;
  tb_device_info info = default_driver()->devices[static_cast<size_t>(device)];
  info.struct_size = size;
  std::memcpy(out, &info, std::min<size_t>(size, sizeof info));
  return TB_OK;
}

void component_error(tb_status status, int64_t native_code, int32_t device, const char *function, const char *text) {
  Driver *found = default_driver();
  set_error(status, native_code, device, found ? found->name.c_str() : nullptr, function, text);
}

int32_t take(tb_error *out) { return take_error(out); }

void describe_error(tb_status status, const char *function, int32_t device, char *out, uint64_t out_size) {
  if (!out_size) return;
  Driver *found = default_driver();
  Failure failure = Failure::take(status, found ? found->name.c_str() : nullptr, function, device);
  copy_text(out, out_size, failure.message().c_str());
}

tb_status on_shutdown(void (*function)(void *), void *user) {
  if (ended.load() != Ended::no) return refuse("on_shutdown");
  std::lock_guard lock(goodbyes_mutex);
  goodbyes.push_back({function, user});
  return TB_OK;
}

void wait_for_devices(Driver &driver, const tb_driver_api &api) {
  for (int32_t device = 0; device < driver.device_count(); ++device) {
    clear_error();
    tb_status status = api.device_synchronize(driver.self, device);
    if (status == TB_OK) continue;
    Failure failure = Failure::take(status, driver.name.c_str(), "device_synchronize", device);
    log(Level::warning, ("at exit: " + failure.message()).c_str());
  }
}

// Waits until no other thread is inside a function of a driver, which must not be closed under it. Functions refuse to be
// called by now. False: a thread has not returned in a second.
bool running_calls_return() {
  constexpr int own = 1; // the caller gave the lock up too
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (threads_without_lock.load() > own) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// The functions may register further ones.
void run_goodbyes() {
  std::unique_lock lock(goodbyes_mutex);
  while (!goodbyes.empty()) {
    Goodbye last = goodbyes.back();
    goodbyes.pop_back();
    lock.unlock();
    last.function(last.user);
    lock.lock();
  }
}

} // namespace

const tb_device_table device_table = {
    sizeof(tb_device_table),
    driver,
    is_open,
    device_count,
    current_device,
    set_current_device,
    device_info,
    component_error,
    take,
    describe_error,
    on_shutdown,
    &forked,
    set_explainer,
    before_wait,
    after_wait,
    is_stream,
    report_late,
    set_late_reporter,
};

void set_opener(Opener open) { opener.store(open); }

Driver *default_driver() noexcept { return chosen.load(std::memory_order_acquire); }

bool set_default_driver(Driver *driver) {
  Driver *none = nullptr;
  return chosen.compare_exchange_strong(none, driver);
}

void shut_down() {
  if (ended.load() != Ended::no) return; // a forked child has nothing to end
  std::vector<Driver *> drivers;
  for (int place = driver_limit - 1; place >= 0; --place)
    if (Driver *driver = driver_at(place)) drivers.push_back(driver);
  for (Driver *driver : drivers) wait_for_devices(*driver, driver->table);
  run_goodbyes();
  for (Driver *driver : drivers) wait_for_devices(*driver, driver->table);
  // Refuse before closing: a daemon thread must not enter a driver that is going.
  ended.store(Ended::exiting);
  for (Driver *driver : drivers) refuse_everything(*driver);
  for (Driver *driver : drivers)
    if (driver->offers(TB_GROUP_ASYNC)) wait_for_devices(*driver, driver->offered); // what came in meanwhile
  if (!running_calls_return()) {
    log(Level::info, "at exit, drivers are left to the operating system: a thread is still in a call");
    return;
  }
  for (Driver *driver : drivers) {
    tb_status status = close_driver(*driver);
    if (status == TB_OK) continue;
    Failure failure = Failure::take(status, driver->name.c_str(), "close", -1);
    log(Level::info, ("at exit, left to the operating system: " + failure.message()).c_str());
  }
}

} // namespace tb::device

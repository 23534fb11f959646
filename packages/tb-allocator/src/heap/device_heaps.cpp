// device_heaps.cpp -- creating the heaps of the process, and shutting them down.
#include "heap/device_heaps.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "blocks/configuration.h"

namespace tb::allocator {

std::atomic<bool> ended{false};
std::atomic<Heap *> device_heaps[device_limit];
std::atomic<Heap *> pinned_heap;

namespace {

std::mutex making;
std::vector<void (*)()> &after_shutdown = *new std::vector<void (*)()>; // guarded by `making`

DeviceTotal totals[device_limit];

void shutdown(void *) {
  ended = true;
  if (*host.forked) return;
  for (auto &heap : device_heaps)
    if (Heap *made = heap) made->shutdown();
  if (Heap *made = pinned_heap) made->shutdown();
  std::lock_guard guard(making);
  for (auto *function : after_shutdown) function();
}

// Reads the configuration, and registers shutdown(). `making` is held.
tb_status prepare(const Driver &driver, Configuration *configuration) {
  std::string wrong = parse_configuration(std::getenv("TB_ALLOC_CONF"), configuration);
  if (wrong.empty() && configuration->expandable_segments.value_or(false) && !(driver.api->groups & TB_GROUP_VMM))
    wrong = "TB_ALLOC_CONF asks for expandable_segments, but the driver offers no virtual memory (group VMM): "
            "leave it out";
  if (!wrong.empty()) return fail(TB_INVALID_ARGUMENT, -1, "allocate", wrong.c_str());
  static bool warned = false;
  if (!configuration->ignored.empty() && !std::exchange(warned, true))
    fprintf(stderr, "tb-allocator: TB_ALLOC_CONF has keys that mean nothing here and are ignored: %s.\n",
            configuration->ignored.c_str());
  static bool registered = false;
  if (registered) return TB_OK;
  tb_status status = host.on_shutdown(shutdown, nullptr);
  registered = status == TB_OK;
  return status;
}

tb_status make_heap(int32_t device, Heap **out) {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  if (*host.forked) { // the driver's table fails with the reason
    void *pointer = nullptr;
    return driver.api->mem_alloc(driver.self, device < 0 ? 0 : device, 1, 0, &pointer);
  }
  std::lock_guard guard(making);
  std::atomic<Heap *> &place = device < 0 ? pinned_heap : device_heaps[device];
  if (Heap *made = place) {
    *out = made;
    return TB_OK;
  }
  Configuration configuration;
  if (tb_status status = prepare(driver, &configuration); status != TB_OK) return status;
  HeapPolicy policy;
  std::unique_ptr<Source> source;
  if (device >= 0) {
    tb_device_info info{};
    info.struct_size = sizeof info;
    if (tb_status status = host.device_info(device, &info); status != TB_OK) return status;
    policy = device_policy(configuration, info, driver.api->groups & TB_GROUP_VMM);
    policy.total = &totals[device];
    policy.total->limit = policy.limit;
    source = std::make_unique<DeviceSource>(driver, device);
  } else {
    policy = pinned_policy(configuration);
    source = std::make_unique<HostSource>(driver);
  }
  *out = new Heap(driver, std::move(source), policy);
  place.store(*out, std::memory_order_release);
  return TB_OK;
}

} // namespace

tb_status find_or_make_heap(int32_t device, bool pinned, Heap **out) {
  if (ended) return fail(TB_FAILED_PRECONDITION, device, "allocate", "the process is ending: no more memory");
  if (pinned) return make_heap(-1, out);
  int32_t count = 0;
  if (tb_status status = host.device_count(&count); status != TB_OK) return status;
  if (device < 0 || device >= count || device >= device_limit) {
    char text[128];
    snprintf(text, sizeof text,
             count ? "device %d asked, but the driver has %d device%s: use 0 to %d"
                   : "device %d asked, but the driver has no device: run tb-device doctor",
             device, count, count == 1 ? "" : "s", count - 1);
    return fail(TB_OUT_OF_RANGE, device, "allocate", text);
  }
  return make_heap(device, out);
}

tb_status heap_for(int32_t device, Heap **out) {
  return guarded(device, "snapshot", [=] { return device < 0 ? heap_of_host(out) : heap_of(device, out); });
}

void at_shutdown(void (*function)()) {
  std::lock_guard guard(making);
  if (std::find(after_shutdown.begin(), after_shutdown.end(), function) == after_shutdown.end())
    after_shutdown.push_back(function);
}

} // namespace tb::allocator

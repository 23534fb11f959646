// streams.cpp -- current, default, pooled and wrapped streams.
#include "streams.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tb::stream {

[[gnu::tls_model("initial-exec")]] thread_local constinit tb_stream *near_streams[near_devices] = {};

namespace {

// The current streams of further devices. They are on the heap, because the thread's storage of this library is all in
// the scarce room that near_streams needs.
thread_local constinit tb_stream **far_streams = nullptr;

struct FarStreams {
  ~FarStreams() { delete[] std::exchange(far_streams, nullptr); }
};

[[gnu::noinline]] tb_stream *&far_stream_of(int32_t device) {
  if (!far_streams) {
    static thread_local const FarStreams until_the_thread_ends;
    far_streams = new tb_stream *[device_limit - near_devices]();
  }
  return far_streams[device - near_devices];
}

// Where this thread's current stream of a device in range is stored.
tb_stream *&stream_slot(int32_t device) { return device < near_devices ? near_streams[device] : far_stream_of(device); }

std::atomic<tb_stream *> default_streams[device_limit];

struct Known {
  int32_t device;
  int32_t priority;
};

struct Pool {
  std::vector<tb_stream *> streams; // made when they are first returned
  uint32_t turns = 0;
  std::vector<tb_stream *> own, released; // those that acquire_stream made, and those of them without an owner
};

// Never destroyed: threads may outlive the static destructors.
struct State {
  std::mutex growing; // held while a stream is made
  std::map<std::pair<int32_t, int32_t>, Pool> pools;
  std::shared_mutex knowing;
  std::unordered_map<tb_stream *, Known> known;
  std::map<std::pair<int32_t, uint64_t>, tb_stream *> wrappers; // by device and native handle; guarded by `growing`
  bool watching = false;                                        // shutdown is registered
  bool ended = false;
};
State &state() {
  static State *made = new State;
  return *made;
}

// Runs before the driver is closed. Handles stay in the arrays of threads; the driver's table refuses them afterwards.
void shutdown(void *) {
  State &all = state();
  std::lock_guard growing(all.growing);
  all.ended = true;
  Driver driver;
  if (open_driver(&driver) != TB_OK) return;
  for (auto &[key, pool] : all.pools)
    for (const auto *streams : {&pool.streams, &pool.own})
      for (tb_stream *stream : *streams) driver.api->stream_destroy(driver.self, stream);
  for (auto &[key, wrapper] : all.wrappers) driver.api->stream_destroy(driver.self, wrapper);
  all.pools.clear();
  all.wrappers.clear();
  std::lock_guard knowing(all.knowing);
  all.known.clear();
}

tb_status check_device(int32_t device, const char *function) {
  int32_t count = 0;
  if (tb_status status = host.device_count(&count); status != TB_OK) return status;
  if (device >= 0 && device < std::min(count, device_limit)) return TB_OK;
  char text[160];
  if (device >= device_limit && device < count)
    snprintf(text, sizeof text, "device %d asked, but tb-stream serves the first %d devices only", device,
             device_limit);
  else
    snprintf(text, sizeof text,
             count ? "device %d asked, but the driver has %d device%s: use 0 to %d"
                   : "device %d asked, but the driver has no device: run tb-device doctor",
             device, count, count == 1 ? "" : "s", count - 1);
  return fail(TB_OUT_OF_RANGE, device, function, text);
}

// The caller holds all.growing.
tb_status watch_shutdown(State &all, int32_t device, const char *function) {
  if (all.ended) return fail(TB_FAILED_PRECONDITION, device, function, "the process is ending: no more streams");
  if (all.watching) return TB_OK;
  tb_status status = host.on_shutdown(shutdown, nullptr);
  all.watching = status == TB_OK;
  return status;
}

tb_status make_stream(State &all, int32_t device, int32_t priority, tb_stream **out) {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  tb_stream *stream = nullptr;
  if (tb_status status = driver.api->stream_create(driver.self, device, priority, 0, &stream); status != TB_OK)
    return status;
  std::lock_guard knowing(all.knowing);
  all.known[stream] = {device, priority};
  *out = stream;
  return TB_OK;
}

// Calls `body(state, pool, priority in range)` with the lock held.
template <class Body>
tb_status with_pool(int32_t device, int32_t priority, const char *function, tb_stream **out, Body body) {
  if (tb_status status = check_device(device, function); status != TB_OK) return status;
  if (*host.forked) { // a thread that does not exist in this process may hold the mutex
    Driver driver;
    if (tb_status status = open_driver(&driver); status != TB_OK) return status;
    return driver.api->stream_create(driver.self, device, priority, 0, out); // refused, with an error text
  }
  tb_device_info info{};
  info.struct_size = sizeof info;
  if (tb_status status = host.device_info(device, &info); status != TB_OK) return status;
  priority = std::clamp(priority, info.priority_greatest, std::max(info.priority_greatest, info.priority_least));
  State &all = state();
  std::lock_guard growing(all.growing);
  if (tb_status status = watch_shutdown(all, device, function); status != TB_OK) return status;
  return body(all, all.pools[{device, priority}], priority);
}

bool look_up(tb_stream *stream, Known *out) {
  State &all = state();
  std::shared_lock knowing(all.knowing);
  auto found = all.known.find(stream);
  if (found == all.known.end()) return false;
  *out = found->second;
  return true;
}

tb_status unknown_stream(const char *function) {
  return fail(TB_NOT_FOUND, -1, function,
              "the handle is neither a default stream nor one of the pool: pass a stream of tb-stream");
}

} // namespace

tb_status find_current_stream(int32_t device, tb_stream **out) {
  if (static_cast<uint32_t>(device) < static_cast<uint32_t>(device_limit))
    if ((*out = stream_slot(device))) return TB_OK;
  if (tb_status status = find_default_stream(device, out); status != TB_OK) return status;
  stream_slot(device) = *out;
  return TB_OK;
}

tb_stream *current_stream(int32_t device) {
  tb_stream *stream = nullptr;
  return find_current_stream(device, &stream) == TB_OK ? stream : nullptr;
}

tb_status set_current_stream(int32_t device, tb_stream *stream) {
  tb_stream *standard = nullptr;
  if (tb_status status = find_default_stream(device, &standard); status != TB_OK) return status;
  if (!stream) stream = standard;
  if (stream != standard) {
    Known known;
    if (look_up(stream, &known) && known.device != device) {
      char text[160];
      snprintf(text, sizeof text, "the stream belongs to device %d, not to device %d: use a stream of device %d",
               known.device, device, device);
      return fail(TB_INVALID_ARGUMENT, device, "set_current_stream", text);
    }
  }
  stream_slot(device) = stream;
  return TB_OK;
}

tb_status find_default_stream(int32_t device, tb_stream **out) {
  if (static_cast<uint32_t>(device) < static_cast<uint32_t>(device_limit))
    if ((*out = default_streams[device].load(std::memory_order_acquire))) return TB_OK;
  if (tb_status status = check_device(device, "default_stream"); status != TB_OK) return status;
  Driver driver;
  tb_stream *stream = nullptr;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  if (tb_status status = driver.api->stream_default(driver.self, device, &stream); status != TB_OK) return status;
  State &all = state();
  {
    std::lock_guard knowing(all.knowing);
    all.known[stream] = {device, 0};
  }
  default_streams[device].store(stream, std::memory_order_release);
  *out = stream;
  return TB_OK;
}

tb_stream *default_stream(int32_t device) {
  tb_stream *stream = nullptr;
  return find_default_stream(device, &stream) == TB_OK ? stream : nullptr;
}

tb_status stream_from_pool(int32_t device, int32_t priority, tb_stream **out) {
  return with_pool(device, priority, "stream_from_pool", out, [&](State &all, Pool &pool, int32_t clamped) {
    pool.streams.reserve(pool_size);
    const uint32_t turn = pool.turns % pool_size;
    if (turn == pool.streams.size()) {
      tb_stream *stream = nullptr;
      if (tb_status status = make_stream(all, device, clamped, &stream); status != TB_OK) return status;
      pool.streams.push_back(stream);
    }
    ++pool.turns;
    *out = pool.streams[turn];
    return tb_status{TB_OK};
  });
}

tb_status acquire_stream(int32_t device, int32_t priority, tb_stream **out) {
  return with_pool(device, priority, "acquire_stream", out, [&](State &all, Pool &pool, int32_t clamped) {
    if (pool.released.empty()) {
      pool.own.reserve(pool.own.size() + 1);
      pool.released.reserve(pool.own.size() + 1); // so that a release cannot fail
      tb_stream *stream = nullptr;
      if (tb_status status = make_stream(all, device, clamped, &stream); status != TB_OK) return status;
      pool.own.push_back(stream);
      pool.released.push_back(stream);
    }
    *out = pool.released.back();
    pool.released.pop_back();
    return tb_status{TB_OK};
  });
}

tb_status release_stream(tb_stream *stream) {
  if (!stream || *host.forked) return TB_OK;
  State &all = state();
  std::lock_guard growing(all.growing);
  if (all.ended) return TB_OK; // it has been destroyed
  for (auto &[key, pool] : all.pools) {
    if (std::ranges::find(pool.own, stream) == pool.own.end()) continue;
    if (std::ranges::find(pool.released, stream) != pool.released.end()) break;
    pool.released.push_back(stream);
    return TB_OK;
  }
  return fail(TB_INVALID_ARGUMENT, -1, "release_stream",
              "the stream is not of stream_acquire, or was released already: release each once");
}

tb_status stream_from_native(int32_t device, uint64_t native, tb_stream **out) {
  tb_stream *standard = nullptr; // known from here on
  if (tb_status status = find_default_stream(device, &standard); status != TB_OK) return status;
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  State &all = state();
  if (*host.forked) return driver.api->stream_wrap(driver.self, device, native, out); // refused, with an error text
  std::lock_guard growing(all.growing);
  if (tb_status status = watch_shutdown(all, device, "from_native"); status != TB_OK) return status;
  std::vector<tb_stream *> streams;
  {
    std::shared_lock knowing(all.knowing);
    for (auto &[stream, known] : all.known)
      if (known.device == device) streams.push_back(stream);
  }
  for (tb_stream *stream : streams) {
    uint64_t own = 0;
    if (tb_status status = driver.api->stream_native(driver.self, stream, &own); status != TB_OK) return status;
    if (own != native) continue;
    *out = stream;
    return TB_OK;
  }
  tb_stream *&wrapper = all.wrappers[{device, native}];
  if (!wrapper) {
    if (tb_status status = driver.api->stream_wrap(driver.self, device, native, &wrapper); status != TB_OK) {
      all.wrappers.erase({device, native});
      return status;
    }
    std::lock_guard knowing(all.knowing);
    all.known[wrapper] = {device, 0};
  }
  *out = wrapper;
  return TB_OK;
}

tb_status stream_device(tb_stream *stream, int32_t *out) {
  Known known;
  if (!look_up(stream, &known)) return unknown_stream("stream_device");
  *out = known.device;
  return TB_OK;
}

tb_status stream_priority(tb_stream *stream, int32_t *out) {
  Known known;
  if (!look_up(stream, &known)) return unknown_stream("stream_priority");
  *out = known.priority;
  return TB_OK;
}

} // namespace tb::stream

// test_state.cpp -- current streams, pool and events used by many threads at once, over a driver that counts handles.
// Run it under ThreadSanitizer.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "check.h"
#include "host.h"
#include "streams.h"
#include "table.h"

struct tb_stream {
  int32_t device, priority;
};
struct tb_event {
  int32_t device;
  uint64_t flags;
};

namespace {

std::mutex mutex;
std::set<tb_stream *> streams;
std::set<tb_event *> events;
constexpr int32_t devices = 12, far_device = 9; // far_device is one beyond near_devices
static_assert(far_device >= tb::stream::near_devices && far_device < devices);
tb_stream standard[devices];
bool refuse_streams = false;
std::vector<void (*)(void *)> shutdowns;
int32_t forked = 0;
thread_local tb_status last_error = TB_OK;
const tb_stream_table &table = tb::stream::stream_table;

tb_driver_api make_api() {
  tb_driver_api api{};
  api.stream_default = [](tb_driver *, int32_t device, tb_stream **out) -> tb_status {
    *out = &standard[device];
    return TB_OK;
  };
  api.stream_create = [](tb_driver *, int32_t device, int32_t priority, uint64_t, tb_stream **out) -> tb_status {
    std::lock_guard guard(mutex);
    if (refuse_streams) return TB_INTERNAL;
    streams.insert(*out = new tb_stream{device, priority});
    return TB_OK;
  };
  api.stream_destroy = [](tb_driver *, tb_stream *stream) -> tb_status {
    std::lock_guard guard(mutex);
    CHECK(streams.erase(stream) == 1);
    delete stream;
    return TB_OK;
  };
  api.event_create = [](tb_driver *, int32_t device, uint64_t flags, tb_event **out) -> tb_status {
    std::lock_guard guard(mutex);
    events.insert(*out = new tb_event{device, flags});
    return TB_OK;
  };
  api.event_destroy = [](tb_driver *, tb_event *event) -> tb_status {
    std::lock_guard guard(mutex);
    CHECK(events.erase(event) == 1);
    delete event;
    return TB_OK;
  };
  return api;
}
tb_driver_api api = make_api();

void install() {
  for (int32_t device = 0; device < devices; ++device) standard[device] = {device, 0};
  tb::host.driver = [](const tb_driver_api **out_api, tb_driver **out_self) -> tb_status {
    *out_api = &api;
    *out_self = nullptr;
    return TB_OK;
  };
  tb::host.device_count = [](int32_t *out) -> tb_status {
    *out = devices;
    return TB_OK;
  };
  tb::host.device_info = [](int32_t, tb_device_info *out) -> tb_status {
    out->priority_least = 0;
    out->priority_greatest = -2;
    return TB_OK;
  };
  tb::host.set_error = [](tb_status status, int64_t, int32_t, const char *, const char *text) {
    CHECK(text[0]);
    last_error = status;
  };
  tb::host.on_shutdown = [](void (*function)(void *), void *) -> tb_status {
    std::lock_guard guard(mutex);
    shutdowns.push_back(function);
    return TB_OK;
  };
  tb::host.forked = &forked;
}

void in_threads(int count, auto body) {
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) threads.emplace_back(body, number);
  for (std::thread &thread : threads) thread.join();
}

void a_failed_creation_leaves_the_pool_usable() {
  tb_stream *out = nullptr;
  refuse_streams = true;
  CHECK(table.from_pool(0, -1, &out) == TB_INTERNAL && !out);
  refuse_streams = false;
  CHECK(table.from_pool(0, -1, &out) == TB_OK && out->priority == -1);
}

void the_current_stream_is_each_threads_own() {
  in_threads(4, [](int number) {
    int32_t device = number % 2 ? far_device : 0, other = far_device - device;
    CHECK(table.current(device) == &standard[device]);
    tb_stream *mine = nullptr;
    CHECK(table.from_pool(device, 0, &mine) == TB_OK);
    for (int step = 0; step < 20000; ++step) {
      CHECK(table.set_current(device, mine) == TB_OK);
      CHECK(table.current(device) == mine && table.current(other) == &standard[other]);
      CHECK(table.set_current(device, nullptr) == TB_OK);
      CHECK(table.current(device) == &standard[device]);
    }
    CHECK(table.set_current(other, mine) == TB_INVALID_ARGUMENT && last_error == TB_INVALID_ARGUMENT);
    CHECK(!table.current(devices) && last_error == TB_OUT_OF_RANGE);
    CHECK(!table.current(-1) && !table.current(1000));
  });
}

void the_pool_has_32_streams_a_priority_for_all_threads() {
  std::set<tb_stream *> seen[3];
  in_threads(4, [&](int) {
    for (int step = 0; step < 500; ++step) {
      tb_stream *stream = nullptr;
      int32_t priority = -(step % 3), device = -1, found = 1;
      CHECK(table.from_pool(1, priority, &stream) == TB_OK);
      CHECK(stream->device == 1 && stream->priority == priority);
      CHECK(table.device_of(stream, &device) == TB_OK && device == 1);
      CHECK(table.priority_of(stream, &found) == TB_OK && found == priority);
      std::lock_guard guard(mutex);
      seen[step % 3].insert(stream);
    }
  });
  for (auto &one : seen) CHECK(one.size() == 32);
}

void streams_of_ones_own_are_nobody_elses() {
  tb_stream *own = nullptr, *other = nullptr, *pooled = nullptr, *again = nullptr;
  CHECK(table.stream_acquire(0, -1, &own) == TB_OK && table.stream_acquire(0, -1, &other) == TB_OK && own != other);
  for (int turn = 0; turn < 64; ++turn) {
    CHECK(table.from_pool(0, -1, &pooled) == TB_OK && pooled != own && pooled != other);
  }
  CHECK(own->device == 0 && own->priority == -1);
  CHECK(table.stream_release(pooled) == TB_INVALID_ARGUMENT && table.stream_release(nullptr) == TB_OK);
  CHECK(table.stream_release(own) == TB_OK && table.stream_release(own) == TB_INVALID_ARGUMENT);
  CHECK(table.stream_acquire(0, 0, &again) == TB_OK && again != own && again->priority == 0);
  CHECK(table.stream_acquire(0, -1, &again) == TB_OK && again == own);
  CHECK(table.stream_release(own) == TB_OK && table.stream_release(other) == TB_OK);
  std::set<tb_stream *> owned;
  in_threads(4, [&](int) {
    for (int step = 0; step < 2000; ++step) {
      tb_stream *stream = nullptr;
      CHECK(table.stream_acquire(0, -2, &stream) == TB_OK);
      {
        std::lock_guard guard(mutex);
        CHECK(owned.insert(stream).second);
      }
      {
        std::lock_guard guard(mutex);
        CHECK(owned.erase(stream) == 1);
      }
      CHECK(table.stream_release(stream) == TB_OK);
    }
  });
}

void an_event_has_one_owner_at_a_time() {
  std::set<tb_event *> out;
  in_threads(4, [&](int number) {
    for (int step = 0; step < 5000; ++step) {
      tb_event *event = nullptr;
      int32_t device = (number + step) % 2;
      uint64_t flags = step % 3 ? 0 : TB_EVENT_TIMING;
      CHECK(table.event_acquire(device, flags, &event) == TB_OK);
      CHECK(event->device == device && event->flags == flags);
      {
        std::lock_guard guard(mutex);
        CHECK(out.insert(event).second);
      }
      {
        std::lock_guard guard(mutex);
        CHECK(out.erase(event) == 1);
      }
      CHECK(table.event_release(event) == TB_OK);
    }
  });
  CHECK(events.size() <= 16); // 4 threads, 2 devices, 2 kinds
  tb_event *event = nullptr;
  CHECK(table.event_acquire(0, 0, &event) == TB_OK && table.event_release(event) == TB_OK);
  CHECK(table.event_release(event) == TB_INVALID_ARGUMENT);
}

void shutdown_destroys_every_handle_and_late_calls_are_refused() {
  tb_event *held = nullptr, *late = nullptr;
  tb_stream *stream = nullptr;
  CHECK(table.event_acquire(0, 0, &held) == TB_OK);
  for (size_t i = shutdowns.size(); i-- > 0;) shutdowns[i](nullptr);
  CHECK(streams.empty() && events.empty() && shutdowns.size() == 2);
  CHECK(table.event_release(held) == TB_OK); // as a Python object does that outlives the driver
  CHECK(table.event_acquire(0, 0, &late) == TB_FAILED_PRECONDITION);
  CHECK(table.from_pool(0, 0, &stream) == TB_FAILED_PRECONDITION);
  CHECK(table.stream_acquire(0, 0, &stream) == TB_FAILED_PRECONDITION);
}

} // namespace

int main() {
  install();
  a_failed_creation_leaves_the_pool_usable();
  the_current_stream_is_each_threads_own();
  the_pool_has_32_streams_a_priority_for_all_threads();
  streams_of_ones_own_are_nobody_elses();
  an_event_has_one_owner_at_a_time();
  shutdown_destroys_every_handle_and_late_calls_are_refused();
}

// fake_driver.h -- a driver with counted memory, whose streams advance only when a test says so, and tb-device's table.
//
// Misuse (freeing unknown memory, mapping twice, accessing unmapped pages, destroying twice) ends the test.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host.h"
#include "tb/component.h"

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                                          \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

struct tb_stream {
  std::atomic<uint64_t> queued{0}, done{0};
  struct Wait { // a wait at a position of this stream for a position of another one
    uint64_t position;
    tb_stream *other;
    uint64_t other_position;
  };
  std::vector<Wait> waits;
  int32_t device = 0;
};
struct tb_event {
  std::atomic<tb_stream *> stream{nullptr};
  std::atomic<uint64_t> position{0};
  int32_t device = 0;
};
struct tb_physical { // a piece of one sparse file
  uint64_t size, offset;
  uint32_t references; // by the handle and by each mapping
};

namespace fake {

struct World {
  std::mutex mutex;
  uint64_t capacity = uint64_t{256} << 20;
  std::atomic<uint64_t> used{0};
  std::map<void *, uint64_t> device_memory, host_memory;
  std::map<char *, uint64_t> ranges; // reserved address ranges
  std::map<char *, tb_physical *> mapped;
  int file = memfd_create("fake-device", 0);
  uint64_t file_size = 0;
  int fail_map = 0; // how many of the next calls fail
  std::set<tb_event *> events;
  std::vector<std::unique_ptr<tb_stream>> streams;
  tb_stream standard;
  int fail_event_create = 0;       // how many of the next calls fail
  tb_status query_failure = TB_OK; // the status of the next event_query
  std::atomic<int> allocations{0}, frees{0}, device_syncs{0}, event_queries{0}, event_records{0};
  std::atomic<int> on_shutdowns{0}, maps{0}, waits{0};
  void (*on_unmap)(char *address, uint64_t size) = nullptr;
  std::vector<void (*)(void *)> shutdowns;
};
inline World world;
inline int32_t forked = 0;
inline thread_local tb_error error{};

inline tb_stream *new_stream(int32_t device = 0) {
  std::lock_guard guard(world.mutex);
  world.streams.push_back(std::make_unique<tb_stream>());
  world.streams.back()->device = device;
  return world.streams.back().get();
}

inline uint64_t granularity = uint64_t{2} << 20;

inline tb_status take(uint64_t size) {
  if (world.used + size > world.capacity) {
    tb::host.set_error(TB_OUT_OF_MEMORY, 0, 0, "mem_alloc", "the fake device is full");
    return TB_OUT_OF_MEMORY;
  }
  world.used += size;
  return TB_OK;
}

inline void release_memory(std::map<void *, uint64_t> &all, void *pointer) {
  auto found = all.find(pointer);
  CHECK(found != all.end());
  world.used -= found->second;
  free(pointer);
  all.erase(found);
}

inline void drop(tb_physical *physical) {
  if (--physical->references) return;
  world.used -= physical->size;
  CHECK(fallocate(world.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(physical->offset),
                  static_cast<off_t>(physical->size)) == 0);
  delete physical;
}

inline void complete_all() {
  std::lock_guard guard(world.mutex);
  for (auto &stream : world.streams) stream->done.store(stream->queued);
  world.standard.done.store(world.standard.queued);
}

// Advances a stream, and before it the streams for which it waits. The caller holds the mutex.
inline void complete(tb_stream *stream, uint64_t position) {
  for (const tb_stream::Wait &wait : stream->waits)
    if (wait.position <= position && wait.other->done < wait.other_position) complete(wait.other, wait.other_position);
  uint64_t done = stream->done;
  while (done < position && !stream->done.compare_exchange_weak(done, position)) {
  }
}

inline tb_driver_api make_api() {
  tb_driver_api api{};
  api.struct_size = sizeof api;
  api.groups = TB_GROUP_CORE | TB_GROUP_ASYNC | TB_GROUP_PIN | TB_GROUP_VMM;
  api.mem_alloc = [](tb_driver *, int32_t, uint64_t size, uint64_t, void **out) -> tb_status {
    std::lock_guard guard(world.mutex);
    if (tb_status status = take(size)) return status;
    ++world.allocations;
    void *pointer = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    world.device_memory[pointer] = size;
    *out = pointer;
    return TB_OK;
  };
  api.mem_free = [](tb_driver *, int32_t, void *pointer) -> tb_status {
    std::lock_guard guard(world.mutex);
    ++world.frees;
    release_memory(world.device_memory, pointer);
    return TB_OK;
  };
  api.mem_alloc_host = [](tb_driver *, int32_t, uint64_t size, uint64_t, void **out) -> tb_status {
    std::lock_guard guard(world.mutex);
    if (tb_status status = take(size)) return status;
    ++world.allocations;
    void *pointer = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    world.host_memory[pointer] = size;
    *out = pointer;
    return TB_OK;
  };
  api.mem_free_host = [](tb_driver *, void *pointer) -> tb_status {
    std::lock_guard guard(world.mutex);
    ++world.frees;
    release_memory(world.host_memory, pointer);
    return TB_OK;
  };
  api.mem_copy = [](tb_driver *, int32_t, tb_stream *, void *to, const void *from, uint64_t size,
                    int32_t) -> tb_status {
    memcpy(to, from, size);
    return TB_OK;
  };
  api.device_memory_info = [](tb_driver *, int32_t, uint64_t *out_free, uint64_t *out_total) -> tb_status {
    *out_free = world.capacity - world.used;
    *out_total = world.capacity;
    return TB_OK;
  };
  api.device_synchronize = [](tb_driver *, int32_t) -> tb_status {
    ++world.device_syncs;
    complete_all();
    return TB_OK;
  };
  api.stream_default = [](tb_driver *, int32_t, tb_stream **out) -> tb_status {
    *out = &world.standard;
    return TB_OK;
  };
  api.stream_synchronize = [](tb_driver *, tb_stream *stream) -> tb_status {
    std::lock_guard guard(world.mutex);
    complete(stream, stream->queued);
    return TB_OK;
  };
  api.event_create = [](tb_driver *, int32_t device, uint64_t, tb_event **out) -> tb_status {
    std::lock_guard guard(world.mutex);
    if (world.fail_event_create > 0) {
      --world.fail_event_create;
      return TB_INTERNAL;
    }
    *out = new tb_event;
    (*out)->device = device;
    world.events.insert(*out);
    return TB_OK;
  };
  api.event_destroy = [](tb_driver *, tb_event *event) -> tb_status {
    std::lock_guard guard(world.mutex);
    CHECK(world.events.erase(event) == 1);
    delete event;
    return TB_OK;
  };
  // As on real devices, an event can only be recorded on streams of its own device.
  api.event_record = [](tb_driver *, tb_event *event, tb_stream *stream) -> tb_status {
    if (event->device != stream->device) return TB_INVALID_ARGUMENT;
    ++world.event_records;
    event->position.store(stream->queued);
    event->stream.store(stream);
    return TB_OK;
  };
  api.stream_wait_event = [](tb_driver *, tb_stream *stream, tb_event *event) -> tb_status {
    std::lock_guard guard(world.mutex);
    ++world.waits;
    // The wait is queued work too.
    if (event->stream) stream->waits.push_back({++stream->queued, event->stream, event->position});
    return TB_OK;
  };
  api.event_query = [](tb_driver *, tb_event *event) -> tb_status {
    ++world.event_queries;
    if (world.query_failure != TB_OK) {
      tb::host.set_error(world.query_failure, 0, 0, "event_query", "a queued kernel failed");
      return std::exchange(world.query_failure, TB_OK);
    }
    tb_stream *stream = event->stream;
    return !stream || stream->done >= event->position ? TB_OK : TB_NOT_READY;
  };
  api.event_synchronize = [](tb_driver *, tb_event *event) -> tb_status {
    std::lock_guard guard(world.mutex);
    complete(event->stream, event->position);
    return TB_OK;
  };
  api.vmm_granularity = [](tb_driver *, int32_t, uint64_t *least, uint64_t *recommended) -> tb_status {
    *least = *recommended = granularity;
    return TB_OK;
  };
  api.vmm_reserve = [](tb_driver *, uint64_t size, uint64_t, void *, void **out) -> tb_status {
    std::lock_guard guard(world.mutex);
    void *base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED);
    world.ranges[static_cast<char *>(base)] = size;
    *out = base;
    return TB_OK;
  };
  api.vmm_release = [](tb_driver *, void *address, uint64_t size) -> tb_status {
    std::lock_guard guard(world.mutex);
    auto *base = static_cast<char *>(address);
    CHECK(world.ranges.count(base) && world.ranges[base] == size);
    auto inside = world.mapped.lower_bound(base);
    CHECK(inside == world.mapped.end() || inside->first >= base + size);
    world.ranges.erase(base);
    munmap(address, size);
    return TB_OK;
  };
  api.vmm_create = [](tb_driver *, int32_t, uint64_t size, uint64_t, tb_physical **out) -> tb_status {
    std::lock_guard guard(world.mutex);
    CHECK(size % granularity == 0);
    if (tb_status status = take(size)) return status;
    *out = new tb_physical{size, world.file_size, 1};
    world.file_size += size;
    CHECK(ftruncate(world.file, static_cast<off_t>(world.file_size)) == 0);
    return TB_OK;
  };
  api.vmm_destroy = [](tb_driver *, tb_physical *physical) -> tb_status {
    std::lock_guard guard(world.mutex);
    drop(physical);
    return TB_OK;
  };
  api.vmm_map = [](tb_driver *, void *address, uint64_t size, tb_physical *physical, uint64_t) -> tb_status {
    std::lock_guard guard(world.mutex);
    CHECK(physical->size == size);
    auto *start = static_cast<char *>(address);
    auto range = world.ranges.upper_bound(start);
    CHECK(range != world.ranges.begin() && start + size <= std::prev(range)->first + std::prev(range)->second);
    if (world.fail_map > 0 && --world.fail_map == 0) return TB_INTERNAL;
    CHECK(world.mapped.emplace(start, physical).second);
    ++physical->references;
    ++world.maps;
    CHECK(mmap(address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, world.file, static_cast<off_t>(physical->offset)) ==
          address);
    return TB_OK;
  };
  // Memory that queued work may still access must stay mapped. The test's streams know what is queued.
  api.vmm_unmap = [](tb_driver *, void *address, uint64_t size) -> tb_status {
    std::lock_guard guard(world.mutex);
    for (auto *at = static_cast<char *>(address), *end = at + size; at < end;) {
      auto found = world.mapped.find(at);
      CHECK(found != world.mapped.end());
      at += found->second->size;
      CHECK(at <= end);
      drop(found->second);
      world.mapped.erase(found);
    }
    if (world.on_unmap) world.on_unmap(static_cast<char *>(address), size);
    CHECK(mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == address);
    return TB_OK;
  };
  api.vmm_set_access = [](tb_driver *, void *address, uint64_t size, const int32_t *, uint32_t, uint32_t) -> tb_status {
    CHECK(mprotect(address, size, PROT_READ | PROT_WRITE) == 0);
    return TB_OK;
  };
  return api;
}
inline tb_driver_api api = make_api();

inline void install() {
  tb::host.struct_size = sizeof tb::host;
  tb::host.driver = [](const tb_driver_api **out_api, tb_driver **out_self) -> tb_status {
    *out_api = &api;
    *out_self = nullptr;
    return TB_OK;
  };
  tb::host.is_open = []() -> int32_t { return 1; };
  tb::host.device_count = [](int32_t *out) -> tb_status {
    *out = 2;
    return TB_OK;
  };
  tb::host.current_device = []() -> int32_t { return 0; };
  tb::host.device_info = [](int32_t, tb_device_info *out) -> tb_status {
    out->total_memory = world.capacity;
    out->alignment = 512;
    out->flags = TB_DEVICE_HOST_ACCESSIBLE;
    return TB_OK;
  };
  tb::host.set_error = [](tb_status status, int64_t, int32_t device, const char *function, const char *text) {
    error.status = status;
    error.device = device;
    snprintf(error.function, sizeof error.function, "%s", function);
    snprintf(error.text, sizeof error.text, "%s", text);
  };
  tb::host.take_error = [](tb_error *out) -> int32_t {
    *out = error;
    error.status = TB_OK;
    return out->status != TB_OK;
  };
  tb::host.on_shutdown = [](void (*function)(void *), void *) -> tb_status {
    ++world.on_shutdowns;
    world.shutdowns.push_back(function);
    return TB_OK;
  };
  tb::host.forked = &forked;
}

} // namespace fake

// table.cpp -- one heap for each device and one for pinned memory, made at first use, and the C table over them.
#include "table/table.h"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "arenas/arena_registry.h"
#include "arenas/capture.h"
#include "blocks/configuration.h"
#include "heap/heap.h"

namespace tb::allocator {

std::atomic<bool> ended{false};

namespace {

constexpr int32_t device_limit = 128; // PyTorch's device index is a signed byte

// Heaps are never destroyed: blocks may come back at any time, from any thread.
std::atomic<Heap *> heaps[device_limit];
std::atomic<Heap *> host_heap;
std::mutex making;
void shutdown(void *) {
  ended = true;
  if (*host.forked) return;
  for (auto &heap : heaps)
    if (Heap *made = heap) made->shutdown();
  if (Heap *made = host_heap) made->shutdown();
  shutdown_arenas();
}

// With `making` held. *configuration is good when TB_OK.
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
  static bool watching = false;
  if (watching) return TB_OK;
  tb_status status = host.on_shutdown(shutdown, nullptr);
  watching = status == TB_OK;
  return status;
}

tb_status make_heap(int32_t device, Heap **out) {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  if (*host.forked) { // the driver's table says why
    void *pointer = nullptr;
    return driver.api->mem_alloc(driver.self, device < 0 ? 0 : device, 1, 0, &pointer);
  }
  std::lock_guard guard(making);
  std::atomic<Heap *> &place = device < 0 ? host_heap : heaps[device];
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
    source = std::make_unique<DeviceSource>(driver, device);
  } else {
    policy = pinned_policy(configuration);
    source = std::make_unique<HostSource>(driver);
  }
  *out = new Heap(driver, std::move(source), policy);
  place.store(*out, std::memory_order_release);
  return TB_OK;
}

[[gnu::noinline]] tb_status unusual(int32_t device, bool pinned, Heap **out) {
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

tb_status heap_of(int32_t device, Heap **out) {
  if (static_cast<uint32_t>(device) < static_cast<uint32_t>(device_limit) && usable()) [[likely]]
    if (Heap *heap = heaps[device].load(std::memory_order_acquire)) [[likely]] {
      *out = heap;
      return TB_OK;
    }
  return unusual(device, false, out);
}

tb_status heap_of_host(Heap **out) {
  if (usable())
    if (Heap *heap = host_heap.load(std::memory_order_acquire)) {
      *out = heap;
      return TB_OK;
    }
  return unusual(-1, true, out);
}

// Calls `body(heap)`.
template <class Body> tb_status with_heap(int32_t device, const char *function, Body body) noexcept {
  return guarded(device, function, [&] {
    Heap *heap = nullptr;
    tb_status status = heap_of(device, &heap);
    return status == TB_OK ? body(*heap) : status;
  });
}
template <class Body> tb_status with_host_heap(const char *function, Body body) noexcept {
  return guarded(-1, function, [&] {
    Heap *heap = nullptr;
    tb_status status = heap_of_host(&heap);
    return status == TB_OK ? body(*heap) : status;
  });
}

tb_status allocate(int32_t device, uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) {
  if (entered && entered->device() == device) [[unlikely]]
    return arena_allocate(as_arena(entered), size, stream, out_pointer, out_block);
  return with_heap(device, "allocate", [=](Heap &heap) {
    Heap *from = &heap;
    if (any_capture()) [[unlikely]]
      if (tb_status status = captured_heap(stream, &from); status != TB_OK) return status;
    return from->allocate(size, stream, out_pointer, out_block);
  });
}

void deallocate(tb_block *block) {
  if (!block || !usable()) [[unlikely]]
    return;
  if (any_capture()) [[unlikely]]
    if (put_off(block)) return;
  block->segment->heap->deallocate(block);
}

tb_status record_stream(tb_block *block, tb_stream *stream) {
  if (!block) return TB_OK; // of size 0
  if (!usable()) return fail(TB_FAILED_PRECONDITION, -1, "record_stream", "the process is ending or was forked");
  return guarded(-1, "record_stream", [=] { return block->segment->heap->record_stream(block, stream); });
}

tb_block *find(const void *pointer) {
  if (!pointer || !usable()) return nullptr;
  for (auto &heap : heaps)
    if (Heap *made = heap.load(std::memory_order_acquire))
      if (tb_block *block = made->find(pointer)) return block;
  return find_in_arenas(pointer); // captures' too
}

tb_status empty_cache(int32_t device) {
  if (any_capture()) // what is given back could still be in use: nobody can wait for the device now
    return fail(TB_FAILED_PRECONDITION, device, "empty_cache",
                "a capture is in progress, and it cannot be waited for: empty the cache before or after it");
  if (usable())
    each_capture_heap(device, [](Heap &heap, bool unused) {
      if (unused) (void)guarded(-1, "empty_cache", [&] { return heap.empty_cache(); });
    });
  if (device >= 0) return with_heap(device, "empty_cache", [](Heap &heap) { return heap.empty_cache(); });
  tb_status first = TB_OK;
  for (auto &heap : heaps)
    if (Heap *made = heap.load(std::memory_order_acquire); made && usable()) {
      tb_status status = guarded(-1, "empty_cache", [=] { return made->empty_cache(); });
      if (first == TB_OK) first = status;
    }
  return first;
}

// With what captures hold; a peak of the sum is at most the sum of the peaks that is told.
void copy_statistics(Heap &heap, int32_t device, tb_allocator_statistics *out) {
  tb_allocator_statistics all{};
  heap.statistics(&all);
  if (device >= 0) add_capture_statistics(device, &all);
  all.struct_size = out->struct_size;
  memcpy(out, &all, out->struct_size < sizeof all ? out->struct_size : sizeof all);
}

tb_status statistics(int32_t device, tb_allocator_statistics *out) {
  return with_heap(device, "statistics", [=](Heap &heap) {
    copy_statistics(heap, device, out);
    return tb_status{TB_OK};
  });
}

tb_status reset_peak(int32_t device) {
  return with_heap(device, "reset_peak", [=](Heap &heap) {
    heap.reset_peak();
    each_capture_heap(device, [](Heap &captured, bool) { captured.reset_peak(); });
    return tb_status{TB_OK};
  });
}

tb_status reset_accumulated(int32_t device) {
  return with_heap(device, "reset_accumulated", [=](Heap &heap) {
    heap.reset_accumulated();
    each_capture_heap(device, [](Heap &captured, bool) { captured.reset_accumulated(); });
    return tb_status{TB_OK};
  });
}

tb_status memory_info(int32_t device, uint64_t *out_free, uint64_t *out_total) {
  Driver driver;
  if (tb_status status = open_driver(&driver); status != TB_OK) return status;
  return driver.api->device_memory_info(driver.self, device, out_free, out_total);
}

tb_status set_limit(int32_t device, uint64_t bytes) {
  return with_heap(device, "set_limit", [=](Heap &heap) {
    heap.set_limit(bytes);
    return tb_status{TB_OK};
  });
}

tb_status host_allocate(uint64_t size, void **out_pointer, tb_block **out_block) {
  return with_host_heap("host_allocate",
                        [=](Heap &heap) { return heap.allocate(size, nullptr, out_pointer, out_block); });
}

tb_block *host_find(const void *pointer) {
  Heap *heap = pointer && usable() ? host_heap.load(std::memory_order_acquire) : nullptr;
  return heap ? heap->find(pointer) : nullptr;
}

tb_status host_empty_cache() {
  return with_host_heap("host_empty_cache", [](Heap &heap) { return heap.empty_cache(); });
}

tb_status host_statistics(tb_allocator_statistics *out) {
  return with_host_heap("host_statistics", [=](Heap &heap) {
    copy_statistics(heap, -1, out);
    return tb_status{TB_OK};
  });
}

} // namespace

tb_status heap_for(int32_t device, Heap **out) {
  return guarded(device, "snapshot", [=] { return device < 0 ? heap_of_host(out) : heap_of(device, out); });
}

const tb_allocator_table allocator_table = {sizeof(tb_allocator_table),
                                            allocate,
                                            deallocate,
                                            record_stream,
                                            find,
                                            empty_cache,
                                            statistics,
                                            reset_peak,
                                            reset_accumulated,
                                            memory_info,
                                            set_limit,
                                            host_allocate,
                                            deallocate,
                                            record_stream,
                                            host_find,
                                            host_empty_cache,
                                            host_statistics,
                                            arena_create,
                                            arena_destroy,
                                            arena_enter,
                                            arena_allocate,
                                            arena_statistics};

const tb_export allocator_export = {{'t', 'b', 'e', 'x', 'p', 'o', 'r', 't'},
                                    TB_ALLOCATOR_API_MAJOR,
                                    TB_ALLOCATOR_API_MINOR,
                                    sizeof(tb_allocator_table),
                                    "tb-allocator",
                                    TB_PACKAGE_VERSION,
                                    TB_PLATFORM,
                                    &allocator_table};

} // namespace tb::allocator

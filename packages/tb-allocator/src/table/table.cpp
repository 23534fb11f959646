// table.cpp -- the C table over the heaps of the process.
#include "table/table.h"

#include <cstring>

#include "arenas/arena_registry.h"
#include "arenas/capture.h"
#include "heap/device_heaps.h"

namespace tb::allocator {
namespace {

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
    const tb_status status = from->allocate(size, stream, out_pointer, out_block);
    if (status != TB_OUT_OF_MEMORY || !release_elsewhere(*from)) [[likely]]
      return status;
    return from->allocate(size, stream, out_pointer, out_block);
  });
}

void deallocate(tb_block *block) { free_block(block); }

tb_status record_stream(tb_block *block, tb_stream *stream) {
  if (!block) return TB_OK; // of size 0
  if (!usable()) return fail(TB_FAILED_PRECONDITION, -1, "record_stream", "the process is ending or was forked");
  return guarded(-1, "record_stream", [=] { return block->segment->heap->record_stream(block, stream); });
}

tb_block *find(const void *pointer) {
  if (!pointer || !usable()) return nullptr;
  for (auto &heap : device_heaps)
    if (Heap *made = heap.load(std::memory_order_acquire))
      if (tb_block *block = made->find(pointer)) return block;
  return find_in_arenas(pointer); // those of captures too
}

tb_status empty_cache(int32_t device) {
  if (any_capture()) // the memory could still be in use, and the device cannot be waited for now
    return fail(TB_FAILED_PRECONDITION, device, "empty_cache",
                "a capture is in progress, and it cannot be waited for: empty the cache before or after it");
  if (usable()) empty_arenas(device, nullptr);
  if (device >= 0) return with_heap(device, "empty_cache", [](Heap &heap) { return heap.empty_cache(); });
  tb_status first = TB_OK;
  for (auto &heap : device_heaps)
    if (Heap *made = heap.load(std::memory_order_acquire); made && usable()) {
      tb_status status = guarded(-1, "empty_cache", [=] { return made->empty_cache(); });
      if (first == TB_OK) first = status;
    }
  return first;
}

// Includes arenas, those of captures too. The peak of the sum is at most the sum of the peaks, which is what is reported.
void copy_statistics(Heap &heap, int32_t device, tb_allocator_statistics *out) {
  tb_allocator_statistics all{};
  heap.statistics(&all);
  if (device >= 0) add_arena_statistics(device, &all);
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
    each_arena(device, [](Heap &arena) { arena.reset_peak(); });
    return tb_status{TB_OK};
  });
}

tb_status reset_accumulated(int32_t device) {
  return with_heap(device, "reset_accumulated", [=](Heap &heap) {
    heap.reset_accumulated();
    each_arena(device, [](Heap &arena) { arena.reset_accumulated(); });
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
  Heap *heap = pointer && usable() ? pinned_heap.load(std::memory_order_acquire) : nullptr;
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

void block_info(const tb_block *block, int32_t *out_device, void **out_pointer, uint64_t *out_size) {
  *out_device = block->segment->heap->device();
  *out_pointer = block->pointer;
  *out_size = block->size;
}

uint64_t capture_pool(const void *pointer) {
  const tb_block *block = pointer ? find(pointer) : nullptr;
  return block ? capture_pool_of(block) : 0;
}

void set_place_finder(uint64_t (*find)(int32_t frees)) { History::place_finder = find; }

} // namespace

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
                                            arena_statistics,
                                            block_info,
                                            capture_pool,
                                            set_place_finder};

const tb_export allocator_export = {{'t', 'b', 'e', 'x', 'p', 'o', 'r', 't'},
                                    TB_ALLOCATOR_API_MAJOR,
                                    TB_ALLOCATOR_API_MINOR,
                                    sizeof(tb_allocator_table),
                                    "tb-allocator",
                                    TB_PACKAGE_VERSION,
                                    TB_PLATFORM,
                                    &allocator_table};

} // namespace tb::allocator

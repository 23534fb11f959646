// arena_registry.cpp -- creating, finding and ending arenas.
#include "arenas/arena_registry.h"

#include <algorithm>
#include <cstring>

#include "heap/device_heaps.h"
#include "waiting_mutex.h"

namespace tb::allocator {
namespace {

struct Registry {
  WaitingMutex mutex;
  std::vector<Heap *> arenas;
  std::vector<std::unique_ptr<Heap>> ending; // destroyed by the caller, while blocks of theirs are allocated
  bool shut = false;
};
// Never destroyed, because blocks may come back while the process ends.
Registry &registry = *new Registry;

// Ends the arenas that have no allocated block any more. The registry's mutex is held.
void sweep() {
  std::erase_if(registry.ending, [](std::unique_ptr<Heap> &heap) {
    if (heap->has_allocated_blocks()) return false;
    heap->shutdown();
    return true;
  });
}

} // namespace

tb_status arena_create(int32_t device, uint64_t limit, uint64_t flags, tb_arena **out) {
  *out = nullptr;
  if (flags & ~uint64_t{TB_ARENA_FIXED | TB_ARENA_CONTIGUOUS})
    return fail(TB_INVALID_ARGUMENT, device, "arena_create", "unknown flags: use those of tb/component.h, TB_ARENA_*");
  Heap *own = nullptr; // checks the device, and reads the configuration
  if (device < 0)
    return fail(TB_OUT_OF_RANGE, device, "arena_create", "an arena is of a device: use a number from 0 on");
  if (tb_status status = heap_for(device, &own); status != TB_OK) return status;
  return guarded(device, "arena_create", [=] {
    Driver driver;
    if (tb_status status = open_driver(&driver); status != TB_OK) return status;
    HeapPolicy policy = own->policy();
    policy.growing = !(flags & TB_ARENA_CONTIGUOUS) && driver.api->groups & TB_GROUP_VMM;
    policy.fixed = flags & TB_ARENA_FIXED;
    policy.limit = limit;
    policy.thread_caches = false;
    auto heap = std::make_unique<Heap>(driver, std::make_unique<DeviceSource>(driver, device), policy);
    at_shutdown(shutdown_arenas);
    std::lock_guard guard(registry.mutex);
    if (registry.shut) return fail(TB_FAILED_PRECONDITION, device, "arena_create", "the process is ending");
    sweep();
    registry.ending.reserve(registry.arenas.size() + registry.ending.size() + 1); // arena_destroy must not fail
    registry.arenas.push_back(heap.get());
    *out = as_arena(heap.release());
    return tb_status{TB_OK};
  });
}

void arena_destroy(tb_arena *arena) {
  if (!arena) return;
  std::lock_guard guard(registry.mutex);
  if (registry.shut || *host.forked) return; // its memory is gone, or its driver is
  Heap *heap = as_heap(arena);
  if (!std::erase(registry.arenas, heap)) {
    fprintf(stderr, "tb-allocator: arena_destroy of an arena that is not there: destroyed twice? Ignored.\n");
    return;
  }
  heap->shutdown();
  registry.ending.emplace_back(heap);
  sweep();
}

tb_arena *arena_enter(tb_arena *arena) { return as_arena(std::exchange(entered, as_heap(arena))); }

tb_status arena_allocate(tb_arena *arena, uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block) {
  Heap *heap = as_heap(arena);
  if (!usable()) return fail(TB_FAILED_PRECONDITION, heap->device(), "allocate", "the process is ending or was forked");
  return guarded(heap->device(), "allocate", [=] { return heap->allocate(size, stream, out_pointer, out_block); });
}

tb_status arena_statistics(tb_arena *arena, tb_allocator_statistics *out) {
  tb_allocator_statistics all{};
  as_heap(arena)->statistics(&all);
  all.struct_size = out->struct_size;
  memcpy(out, &all, std::min<size_t>(out->struct_size, sizeof all));
  return TB_OK;
}

tb_block *find_in_arenas(const void *pointer) {
  std::lock_guard guard(registry.mutex);
  for (Heap *heap : registry.arenas)
    if (tb_block *block = heap->find(pointer)) return block;
  return nullptr;
}

void shutdown_arenas() {
  std::lock_guard guard(registry.mutex);
  registry.shut = true;
  for (Heap *heap : registry.arenas) heap->shutdown();
  for (auto &heap : registry.ending) {
    heap->shutdown();
    heap.release(); // blocks may come back
  }
  registry.ending.clear();
}

} // namespace tb::allocator

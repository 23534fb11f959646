// arena_registry.cpp -- creating, finding and ending arenas.
#include "arenas/arena_registry.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "arenas/capture.h"
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

void empty_arenas(int32_t device, const Heap *but) {
  std::vector<Heap *> of_graphs; // a graph uses what its pool has free
  each_capture_heap(device, [&](Heap &pool, bool unused) {
    if (!unused) of_graphs.push_back(&pool);
  });
  each_arena(device, [&](Heap &arena) {
    if (&arena == but || arena.paused() || std::ranges::find(of_graphs, &arena) != of_graphs.end()) return;
    if (guarded(device, "empty_cache", [&] { return arena.empty_cache(); }) != TB_OK) drop_error();
  });
}

bool release_elsewhere(Heap &heap) {
  const DeviceTotal *total = heap.policy().total;
  if (!total || any_capture()) return false;
  const uint64_t before = total->reserved;
  Heap *own = device_heaps[heap.device()].load(std::memory_order_acquire);
  if (own && own != &heap)
    if (guarded(heap.device(), "allocate", [&] { return own->empty_cache(); }) != TB_OK) drop_error();
  empty_arenas(heap.device(), &heap);
  if (total->reserved >= before) return false;
  drop_error();
  heap.retract_out_of_memory();
  return true;
}

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
    policy.limit = limit; // its own, beside the device's
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
  return guarded(heap->device(), "allocate", [=] {
    const tb_status status = heap->allocate(size, stream, out_pointer, out_block);
    if (status != TB_OUT_OF_MEMORY || !release_elsewhere(*heap)) [[likely]]
      return status;
    return heap->allocate(size, stream, out_pointer, out_block);
  });
}

tb_status arena_statistics(tb_arena *arena, tb_allocator_statistics *out) {
  tb_allocator_statistics all{};
  as_heap(arena)->statistics(&all);
  all.struct_size = out->struct_size;
  memcpy(out, &all, std::min<size_t>(out->struct_size, sizeof all));
  return TB_OK;
}

void each_arena(int32_t device, const std::function<void(Heap &)> &visit) {
  std::lock_guard guard(registry.mutex);
  for (Heap *heap : registry.arenas)
    if (device < 0 || heap->device() == device) visit(*heap);
  for (auto &heap : registry.ending)
    if (device < 0 || heap->device() == device) visit(*heap);
}

void add_arena_statistics(int32_t device, tb_allocator_statistics *all) {
  using Counts = tb_allocator_statistics;
  using Lane = tb_statistic(Counts::*)[3];
  using Number = int64_t Counts::*;
  constexpr Lane lanes[] = {
      &Counts::allocation,      &Counts::segment,        &Counts::active,       &Counts::inactive_split,
      &Counts::allocated_bytes, &Counts::reserved_bytes, &Counts::active_bytes, &Counts::inactive_split_bytes,
      &Counts::requested_bytes};
  constexpr Number numbers[] = {&Counts::num_alloc_retries, &Counts::num_ooms, &Counts::num_device_alloc,
                                &Counts::num_device_free, &Counts::num_sync_all_streams};
  // All fields but struct_size, the reserved one and max_split_size, which is no sum.
  static_assert(sizeof(Counts) == 2 * sizeof(uint32_t) + sizeof(tb_statistic[std::size(lanes)][3]) +
                                      (std::size(numbers) + 1) * sizeof(int64_t),
                "a statistic is missing from these lists");
  each_arena(device, [&](Heap &heap) {
    tb_allocator_statistics one{};
    heap.statistics(&one);
    for (Lane lane : lanes)
      for (size_t kind = 0; kind < 3; ++kind) {
        tb_statistic &sum = (all->*lane)[kind];
        const tb_statistic &more = (one.*lane)[kind];
        sum.current += more.current;
        sum.peak += more.peak;
        sum.allocated += more.allocated;
        sum.freed += more.freed;
      }
    for (Number number : numbers) all->*number += one.*number;
  });
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

// capture.cpp -- tb-allocator's part in captures (tb/component.h).
#include "arenas/capture.h"

#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "arenas/arena_registry.h"
#include "waiting_mutex.h"

namespace tb::allocator {
namespace {

struct CapturePool {
  uint64_t number = 0; // 0: unused, for the next capture
  int32_t device = -1;
  uint32_t captures = 0;
  Heap *heap = nullptr;
};

// Never destroyed, because blocks may come back at any time.
struct State {
  WaitingMutex mutex;
  std::vector<std::unique_ptr<CapturePool>> pools;
  std::vector<tb_block *> put_off;
};
State &state() {
  static State *made = new State;
  return *made;
}

const tb_stream_table *streams = nullptr;

bool in_use(Heap &heap) {
  tb_allocator_statistics now{};
  heap.statistics(&now);
  return now.allocation[0].current != 0;
}

// A pool that has blocks in use serves no other capture, so that its number says which capture made a block. The mutex is
// held. Launches may still use the memory of an unused pool. So what it has cached goes back to the driver
// first, which waits for the device. During another capture the device cannot be waited for, so no pool is used again.
tb_status find_pool(State &all, uint64_t number, int32_t device, CapturePool **out) {
  CapturePool *found = nullptr;
  for (auto &pool : all.pools) {
    if (pool->number == number && pool->device != device)
      return fail(TB_INVALID_ARGUMENT, device, "capture_begin",
                  "the pool is of another device: captures share memory on one device only");
    if (pool->device == device &&
        (pool->number == number || (!found && !pool->number && !any_capture() && !in_use(*pool->heap))))
      found = pool.get();
    if (pool->number == number) break;
  }
  if (found && found->number != number)
    if (tb_status status = found->heap->empty_cache(); status != TB_OK) return status;
  if (!found) {
    auto made = std::make_unique<CapturePool>();
    all.pools.reserve(all.pools.size() + 1);
    tb_arena *arena = nullptr;
    if (tb_status status = arena_create(device, UINT64_MAX, TB_ARENA_CONTIGUOUS, &arena); status != TB_OK)
      return status;
    made->heap = as_heap(arena);
    made->device = device;
    all.pools.push_back(std::move(made));
    found = all.pools.back().get();
  }
  found->number = number;
  *out = found;
  return TB_OK;
}

tb_status begin(int32_t device, tb_stream *, uint64_t number, void **out) {
  return guarded(device, "capture_begin", [=] {
    State &all = state();
    std::lock_guard guard(all.mutex);
    CapturePool *pool = nullptr;
    if (tb_status status = find_pool(all, number, device, &pool); status != TB_OK) return status;
    ++pool->captures;
    *out = pool;
    return tb_status{TB_OK};
  });
}

void end(void *) {
  std::vector<tb_block *> blocks;
  {
    State &all = state();
    std::lock_guard guard(all.mutex);
    if (any_capture()) return;
    blocks.swap(all.put_off);
  }
  for (tb_block *block : blocks) free_block(block);
}

tb_status launch(void *, tb_stream *) { return TB_OK; }

void destroy(void *part) {
  auto *pool = static_cast<CapturePool *>(part);
  std::lock_guard guard(state().mutex);
  if (--pool->captures == 0) pool->number = 0;
}

const tb_capture_part part{sizeof(tb_capture_part), 0, "tb-allocator", begin, end, launch, destroy};

} // namespace

tb_status connect_captures(const tb_stream_table &table) {
  if (!table.add_capture_part || streams) return TB_OK;
  if (tb_status status = table.add_capture_part(&part); status != TB_OK) return status;
  streams = &table;
  capturing = table.capturing;
  return TB_OK;
}

tb_status captured_heap(tb_stream *stream, Heap **heap) {
  void *found = nullptr;
  if (!stream) return TB_OK; // the default stream, which cannot be captured
  if (tb_status status = streams->capture_part(stream, &part, &found); status != TB_OK) return status;
  if (found) *heap = static_cast<CapturePool *>(found)->heap;
  return TB_OK;
}

bool put_off(tb_block *block) noexcept {
  if (!block->uses) return false;
  try {
    State &all = state();
    std::lock_guard guard(all.mutex);
    if (!any_capture()) return false; // the last one has just ended
    all.put_off.push_back(block);
  } catch (const std::bad_alloc &) {
    fprintf(stderr, "tb-allocator: no host memory to record a block that is freed during a capture: it is lost.\n");
  }
  return true;
}

void each_capture_heap(int32_t device, const std::function<void(Heap &, bool)> &visit) {
  State &all = state();
  std::lock_guard guard(all.mutex);
  for (auto &pool : all.pools)
    if (device < 0 || pool->device == device) visit(*pool->heap, pool->captures == 0);
}

uint64_t capture_pool_of(const tb_block *block) {
  State &all = state();
  std::lock_guard guard(all.mutex);
  for (const auto &pool : all.pools)
    if (pool->heap == block->segment->heap) return pool->number;
  return 0;
}

} // namespace tb::allocator

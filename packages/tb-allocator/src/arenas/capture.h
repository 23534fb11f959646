// capture.h -- memory of captured work. Each pool of captures has a heap of its own, so that no other work gets an
// address that a launch will use.
#pragma once

#include <functional>

#include "heap/device_heaps.h"

namespace tb::allocator {

inline constexpr int32_t nothing_captured = 0;
inline const int32_t *capturing = &nothing_captured; // tb-stream's count, once connected
inline bool any_capture() { return __atomic_load_n(capturing, __ATOMIC_RELAXED) != 0; }

// From now on captures of tb-stream allocate here. Does nothing with an older tb-stream, which has no captures.
tb_status connect_captures(const tb_stream_table &streams);
// Sets *heap to the heap of the capture that the stream takes part in, if it does.
tb_status captured_heap(tb_stream *stream, Heap **heap);
// Whether the block is freed later, when no capture is in progress. A block that several streams use waits for events,
// and events that are recorded during a capture do not say when work is done.
bool put_off(tb_block *block) noexcept;

// Frees a block of any heap.
inline void free_block(tb_block *block) {
  if (!block || !usable()) [[unlikely]]
    return;
  if (any_capture()) [[unlikely]]
    if (put_off(block)) return;
  block->segment->heap->deallocate(block);
}

// The heaps of captures. unused: of captures that are gone, so that the memory may go back to the driver.
void each_capture_heap(int32_t device, const std::function<void(Heap &heap, bool unused)> &visit);
// The number of the capture pool that a block belongs to; 0: to none, or to one whose captures are gone.
uint64_t capture_pool_of(const tb_block *block);

} // namespace tb::allocator

// capture.h -- memory of captured work. Each pool of captures has a heap of its own, so that nobody else gets an address
// that a launch will use.
#pragma once

#include <functional>

#include "heap/heap.h"

namespace tb::allocator {

inline constexpr int32_t nothing_captured = 0;
inline const int32_t *capturing = &nothing_captured; // tb-stream's count, once connected
// While it is false nothing below is of use.
inline bool any_capture() { return __atomic_load_n(capturing, __ATOMIC_RELAXED) != 0; }

// From now on captures of tb-stream allocate here. An older tb-stream has none: a no-op.
tb_status connect_captures(const tb_stream_table &streams);
// Where work of `stream` allocates: *heap stays as it is unless the stream takes part in a capture.
tb_status captured_heap(tb_stream *stream, Heap **heap);
// True: the block comes back when no capture is in progress any more. One that several streams use has to wait for
// events, and those of a capture tell nothing.
bool put_off(tb_block *block) noexcept;

// The heaps of captures, also of those that are gone, whose memory is then free to go back to the driver.
void each_capture_heap(int32_t device, const std::function<void(Heap &heap, bool unused)> &visit);
// Adds their counts to those of the device.
void add_capture_statistics(int32_t device, tb_allocator_statistics *all);

} // namespace tb::allocator

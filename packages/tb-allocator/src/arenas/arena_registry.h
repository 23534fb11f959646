// arena_registry.h -- arenas: further heaps of a device, and the one that a thread allocates from.
#pragma once

#include <functional>

#include "heap/heap.h"

namespace tb::allocator {

inline tb_arena *as_arena(Heap *heap) { return reinterpret_cast<tb_arena *>(heap); }
inline Heap *as_heap(tb_arena *arena) { return reinterpret_cast<Heap *>(arena); }

// The arena that this thread entered; NULL: the device's own heap. It is found without a call, because every allocation
// looks.
#if defined(__linux__)
[[gnu::tls_model("initial-exec")]]
#endif
inline thread_local Heap *entered = nullptr;

// The functions of the C table.
tb_status arena_create(int32_t device, uint64_t limit, uint64_t flags, tb_arena **out);
void arena_destroy(tb_arena *arena);
tb_arena *arena_enter(tb_arena *arena);
tb_status arena_allocate(tb_arena *arena, uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
tb_status arena_statistics(tb_arena *arena, tb_allocator_statistics *out);

// The arenas of a device, -1: of all, those that end and those of captures among them. No arena begins or ends meanwhile.
void each_arena(int32_t device, const std::function<void(Heap &heap)> &visit);

// Adds their counts to those of the device.
void add_arena_statistics(int32_t device, tb_allocator_statistics *all);

// Gives back what the arenas of a device, -1: of all, have cached, `but` one, and waits for the device. Arenas that are paused, and
// pools that graphs use, keep theirs. A failure of queued work is left to the next wait.
void empty_arenas(int32_t device, const Heap *but);

// After `heap` found no memory: gives back what the device's other heaps have cached, and waits for the device. Returns
// whether anything went back; then the failure is forgotten, and `heap` may try again. Not during a capture, which cannot
// wait, and never what graphs use.
bool release_elsewhere(Heap &heap);

tb_block *find_in_arenas(const void *pointer);
void shutdown_arenas();

} // namespace tb::allocator

// arena_registry.h -- further heaps of a device, each apart from all others, and the one that a thread takes memory from.
#pragma once

#include "heap/heap.h"

namespace tb::allocator {

inline tb_arena *as_arena(Heap *heap) { return reinterpret_cast<tb_arena *>(heap); }
inline Heap *as_heap(tb_arena *arena) { return reinterpret_cast<Heap *>(arena); }

// Of this thread; NULL: the device's own heap. Found without a call, because every allocation looks.
#if defined(__linux__)
[[gnu::tls_model("initial-exec")]]
#endif
inline thread_local Heap *entered = nullptr;

// The functions of the table.
tb_status arena_create(int32_t device, uint64_t limit, uint64_t flags, tb_arena **out);
void arena_destroy(tb_arena *arena);
tb_arena *arena_enter(tb_arena *arena);
tb_status arena_allocate(tb_arena *arena, uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
tb_status arena_statistics(tb_arena *arena, tb_allocator_statistics *out);

tb_block *find_in_arenas(const void *pointer);
void shutdown_arenas();

} // namespace tb::allocator

// allocators.h -- what the other files need of the two allocators.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace at {
struct HostAllocator;
}

namespace tb {

c10::Allocator *device_allocator();
at::HostAllocator *host_allocator();
// Keeps the memory from being reused before the work queued on `stream` now is done. Memory that is not the allocator's
// own (from_blob, DLPack) is left alone: its owner decides.
void record_stream(const c10::DataPtr &data, const c10::Stream &stream);

} // namespace tb

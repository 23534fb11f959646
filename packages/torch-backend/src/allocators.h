// allocators.h -- the allocators of device memory and pinned host memory, for the other files.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace at {
struct HostAllocator;
}

namespace tb::backend {

c10::Allocator *device_allocator();
at::HostAllocator *host_allocator();
// Keeps the memory from being reused before the work that is queued on `stream` now is done. Has no effect on memory
// that the allocator did not allocate (from_blob, DLPack).
void record_stream(const c10::DataPtr &data, const c10::Stream &stream);

} // namespace tb::backend

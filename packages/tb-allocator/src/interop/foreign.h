// foreign.h -- for libraries that use native stream handles and addresses only: PyTorch's CUDA, CuPy, Numba, RMM.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>

#include "host.h"

namespace tb::allocator {

// The tb_stream that wraps a native handle. It is the same each time and is kept as long as the process, because memory
// belongs to a tb_stream. 0 is the vendor's default stream or, where the driver cannot wrap that, the device's.
tb_status foreign_stream(int32_t device, uint64_t native, tb_stream **out);

// The arena for this stream while one of PyTorch's pools is open for it, because a graph is captured or a
// torch.cuda.MemPool is used. NULL: the device's own memory.
tb_arena *open_pool(int32_t device, void *native);

// As in PyTorch: the number of a pool, and which streams it is open for.
using PoolId = std::pair<unsigned long long, unsigned long long>;
using PoolFilter = std::function<bool(void *stream)>;

} // namespace tb::allocator

// What torch.cuda.memory.CUDAPluggableAllocator looks up by name. Streams are native handles.
#define TB_FOREIGN_API extern "C" __attribute__((visibility("default")))

// Throws std::bad_alloc with the reason as its text; size 0 gives NULL.
TB_FOREIGN_API void *tb_torch_alloc(ssize_t size, int device, void *stream);
TB_FOREIGN_API void tb_torch_free(void *pointer, ssize_t size, int device, void *stream);
// The optional functions, as torch._C._cuda_customAllocator's setters take them by address.
TB_FOREIGN_API void tb_torch_record_stream(void *pointer, void *stream);
TB_FOREIGN_API void tb_torch_reset();
TB_FOREIGN_API void tb_torch_memory_fraction(double fraction, int device);
TB_FOREIGN_API void *tb_torch_base_allocation(void *pointer, size_t *size);
// A pool is made when it is first opened, and ends when it was released as often as opened.
TB_FOREIGN_API void tb_torch_begin_allocate_to_pool(int device, tb::allocator::PoolId id,
                                                    tb::allocator::PoolFilter filter);
TB_FOREIGN_API void tb_torch_end_allocate_to_pool(int device, tb::allocator::PoolId id);
TB_FOREIGN_API void tb_torch_release_pool(int device, tb::allocator::PoolId id);

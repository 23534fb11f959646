// foreign.h -- for libraries that know native stream handles and addresses only: PyTorch's CUDA, CuPy, Numba, RMM.
#pragma once

#include <sys/types.h>

#include "host.h"

namespace tb {

// The stream that wraps a native handle, the same each time, kept for the life of the process: memory belongs to a stream
// by its tb_stream. 0 is the vendor's default stream; where the driver cannot wrap that, the device's default stream.
tb_status foreign_stream(int32_t device, uint64_t native, tb_stream **out);

} // namespace tb

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

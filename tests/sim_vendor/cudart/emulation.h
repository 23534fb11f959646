// emulation.h -- a CUDA runtime on host memory: a libcudart.so.13 for benchmarks of allocators on machines without a
// GPU.
//
// There is one device of a given capacity. Its memory is host memory, of which pages are used when they are first
// touched. Work is done when it is queued, so every event is complete. Only functions that allocators need are
// emulated; all others return cudaErrorNotSupported. NVIDIA's headers are included, so that a function of the wrong
// type does not compile.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#define CUDART_EMULATION_API extern "C" __attribute__((visibility("default")))

namespace emulation {

enum class Call { allocate, free, reserve, create, map, unmap, access, record, query, wait, synchronize, count };

struct World {
  std::mutex mutex; // guards the records of memory
  std::atomic<uint64_t> capacity{uint64_t{80} << 30};
  std::atomic<uint64_t> used{0}, peak{0};
  std::atomic<uint64_t> calls[static_cast<int>(Call::count)]{};
};
World &world();

inline void count(Call call) { world().calls[static_cast<int>(call)].fetch_add(1, std::memory_order_relaxed); }
bool charge(uint64_t bytes); // returns false if the device is full
void discharge(uint64_t bytes);

cudaError_t failed(cudaError_t error); // keeps the error for cudaGetLastError, and returns it
void *driver_function(const char *name);

} // namespace emulation

// For the measuring program. Sizes are bytes.
CUDART_EMULATION_API void cudart_emulation_set_capacity(uint64_t bytes);
CUDART_EMULATION_API uint64_t cudart_emulation_peak(void);
CUDART_EMULATION_API void cudart_emulation_reset_peak(void); // sets the peak to the current use
// The number of calls of a kind, which is a number of emulation::Call.
CUDART_EMULATION_API uint64_t cudart_emulation_calls(int call);

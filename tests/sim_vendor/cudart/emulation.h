// emulation.h -- a CUDA runtime on host memory: libcudart.so.13 for programs that allocate, without a GPU.
//
// One device of a given capacity, whose memory is the host's, taken when it is touched. Work is done when it is queued,
// so every event has completed. What is offered is what allocators need; all else answers cudaErrorNotSupported.
// Compiled against NVIDIA's headers, so that a function of another type than the real one does not compile.
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
  std::mutex mutex; // of the memory's records
  std::atomic<uint64_t> capacity{uint64_t{80} << 30};
  std::atomic<uint64_t> used{0}, peak{0};
  std::atomic<uint64_t> calls[static_cast<int>(Call::count)]{};
};
World &world();

inline void count(Call call) { world().calls[static_cast<int>(call)].fetch_add(1, std::memory_order_relaxed); }
bool charge(uint64_t bytes); // false: the device is full
void discharge(uint64_t bytes);

cudaError_t failed(cudaError_t error); // remembered for cudaGetLastError
void *driver_function(const char *name);

} // namespace emulation

// For the program that measures. Bytes.
CUDART_EMULATION_API void cudart_emulation_set_capacity(uint64_t bytes);
CUDART_EMULATION_API uint64_t cudart_emulation_peak(void);
CUDART_EMULATION_API void cudart_emulation_reset_peak(void); // to what is used now
// How often a kind of call was made, by its number in emulation::Call.
CUDART_EMULATION_API uint64_t cudart_emulation_calls(int call);

// emulated_streams.h -- streams by number on the emulated CUDA runtime, for peers that run on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" void cudart_emulation_set_capacity(uint64_t bytes);
extern "C" uint64_t cudart_emulation_peak(void);

namespace measure {

constexpr uint64_t emulated_capacity = uint64_t{1} << 40;

inline std::vector<cudaStream_t> emulated_streams(uint32_t count) {
  std::vector<cudaStream_t> made(count, cudaStreamLegacy);
  for (uint32_t stream = 1; stream < count; ++stream)
    if (cudaStreamCreateWithPriority(&made[stream], cudaStreamNonBlocking, 0) != cudaSuccess) abort();
  return made;
}

} // namespace measure

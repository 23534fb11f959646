// rmm.cpp -- RMM's pool from its published headers, on the emulated CUDA runtime. It keeps no statistics.
//
// Its first reservation holds everything that a trace needs, so it never grows. It has no record_stream.
#include <rmm/mr/device/cuda_memory_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

#include "emulated_streams.h"
#include "measure.h"

// librmm.so contains its own CUDA runtime, which looks for a GPU. These definitions replace the two functions that
// would call it.
namespace rmm {
int get_num_cuda_devices() { return 1; }
cuda_device_id get_current_cuda_device() { return cuda_device_id{0}; }
} // namespace rmm

namespace {

constexpr uint64_t reservation = uint64_t{256} << 30;

class Allocator {
public:
  struct Block {
    void *pointer = nullptr;
    uint64_t bytes = 0;
    uint32_t stream = 0;
    explicit operator bool() const { return pointer != nullptr; }
  };

  explicit Allocator(uint32_t streams)
      : streams_(measure::emulated_streams(streams)), pool_(&upstream_, reservation, reservation) {}

  bool allocate(uint64_t bytes, uint32_t stream, Block *out) {
    try {
      *out = {pool_.allocate(bytes, rmm::cuda_stream_view{streams_[stream]}), bytes, stream};
      return true;
    } catch (const rmm::bad_alloc &) {
      return false;
    }
  }
  void deallocate(Block &block) {
    pool_.deallocate(block.pointer, block.bytes, rmm::cuda_stream_view{streams_[block.stream]});
  }
  void record(Block &, uint32_t) {}
  uint64_t peak_reserved() { return cudart_emulation_peak(); }

private:
  // The pool's constructor allocates, so the capacity must be set first.
  struct Capacity {
    Capacity() { cudart_emulation_set_capacity(measure::emulated_capacity); }
  } capacity_;
  std::vector<cudaStream_t> streams_;
  rmm::mr::cuda_memory_resource upstream_;
  rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool_;
};

} // namespace

int main(int count, char **arguments) { return measure::main<Allocator>(count, arguments); }

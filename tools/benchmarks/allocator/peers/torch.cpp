// torch.cpp -- PyTorch's own CUDA caching allocator, from the library in its wheel, on the emulated CUDA runtime.
//
// PYTORCH_CUDA_ALLOC_CONF chooses its mode. raw_alloc_with_stream is its fastest entry: it makes no tensor and reads no
// current stream.
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/PeerToPeerAccess.h>

#include "emulated_streams.h"
#include "measure.h"

namespace c10::cuda::_internal { // exported by libc10_cuda.so, declared in no header; libtorch_cuda calls it
C10_CUDA_API void setHasPrimaryContext(bool (*function)(DeviceIndex));
}

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

class Allocator {
public:
  using Block = void *;

  explicit Allocator(uint32_t streams) {
    cudart_emulation_set_capacity(measure::emulated_capacity);
    streams_ = measure::emulated_streams(streams);
    streams_[0] = nullptr; // PyTorch's default stream is NULL too
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    c10::cuda::detail::init_p2p_access_cache(1);
    caching::CUDAAllocatorConfig::set_expandable_segments_handle_type(
        caching::Expandable_Segments_Handle_Type::POSIX_FD);
    caching::init(1);
    allocator_ = caching::get();
  }

  bool allocate(uint64_t bytes, uint32_t stream, Block *out) {
    try {
      *out = allocator_->raw_alloc_with_stream(bytes, streams_[stream]);
      return true;
    } catch (const c10::OutOfMemoryError &) {
      return false;
    }
  }
  void deallocate(Block &block) { allocator_->raw_delete(block); }
  void record(Block &block, uint32_t stream) {
    c10::DataPtr data(block, block, allocator_->raw_deleter(), c10::Device(c10::DeviceType::CUDA, 0));
    allocator_->recordStream(data, c10::cuda::getStreamFromExternal(streams_[stream], 0));
    data.release_context();
  }
  uint64_t peak_reserved() { return cudart_emulation_peak(); }

private:
  std::vector<cudaStream_t> streams_;
  caching::CUDAAllocator *allocator_ = nullptr;
};

} // namespace

int main(int count, char **arguments) { return measure::main<Allocator>(count, arguments); }

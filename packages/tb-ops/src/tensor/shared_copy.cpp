// Cuts a long copy into pieces, which the caller and the stream's worker take one after the other.
//
// OpenMP threads of the caller would be as fast, but they would not end. From then on the worker's own threads would
// sleep between loops (docs/decisions/0065-idle-openmp-threads.md has the measurement). The worker may be asleep, so
// the caller does not wait for it to begin.
#include "tensor/shared_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "launch/launch.h"

namespace tb::ops {
namespace {

constexpr size_t long_copy = 256 << 10; // bytes; from here on copying half takes longer than asking the worker
constexpr size_t piece = 64 << 10;

class SharedCopy {
public:
  SharedCopy(void *to, const void *from, size_t bytes)
      : to_(static_cast<std::byte *>(to)), from_(static_cast<const std::byte *>(from)), bytes_(bytes) {}

  // Copies pieces until none is left. Once all are done, it touches neither memory.
  void take() {
    for (size_t begin; (begin = next_.fetch_add(piece, std::memory_order_relaxed)) < bytes_;) {
      const size_t size = std::min(piece, bytes_ - begin);
      std::memcpy(to_ + begin, from_ + begin, size);
      done_.fetch_add(size, std::memory_order_release);
    }
  }
  bool done() const { return done_.load(std::memory_order_acquire) == bytes_; }

private:
  std::byte *const to_;
  const std::byte *const from_;
  const size_t bytes_;
  std::atomic<size_t> next_ = 0, done_ = 0;
};

} // namespace

void copy_bytes_now(c10::DeviceIndex device, void *to, const void *from, size_t bytes) {
  if (bytes < long_copy || at::get_num_threads() == 1) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto copy = std::make_shared<SharedCopy>(to, from, bytes);
  launch<"aten::copy_">(device, [copy] { copy->take(); });
  copy->take();
  while (!copy->done()) std::this_thread::yield(); // for the worker's last piece
}

} // namespace tb::ops

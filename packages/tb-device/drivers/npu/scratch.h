// Memory of the driver's own that queued work still uses: pinned pages for patterns, device blocks for
// overlapping copies. Each is used again, or freed, once the stream has passed it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/npu/runtime.h"

namespace tb::drivers::npu {

class NativeEvent;

class Scratch {
public:
  static constexpr uint64_t page_bytes = 4096;

  Scratch(Runtime &runtime, const tb_host *host) : runtime_(runtime), host_(host) {}
  Scratch(const Scratch &) = delete;

  struct Piece {
    void *memory = nullptr;
    bool pinned = false;
    int32_t device = 0;
    std::shared_ptr<NativeEvent> passed;
  };
  // All with the device bound.
  Piece pinned_page(int32_t device);
  Piece device_block(int32_t device, uint64_t size);
  // After the work that uses it was queued.
  void passes(Piece piece, acl::Stream stream);
  // Nothing was queued with it.
  void give_back(Piece piece) noexcept;
  // Everything; the streams have been waited for.
  void clear() noexcept;

private:
  // Frees passed blocks, keeps passed pages.
  void collect(int32_t device);
  void free(const Piece &piece) noexcept;
  Runtime &runtime_;
  const tb_host *host_;
  std::mutex mutex_;
  std::vector<Piece> pages_, pending_;
};

} // namespace tb::drivers::npu

// Memory of the driver's own that queued work still uses.
#include "drivers/npu/scratch.h"

#include <algorithm>

#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
namespace {
constexpr size_t collect_at = 64; // pending pieces: asking each for its event costs a call
}

void Scratch::collect(int32_t device) {
  std::erase_if(pending_, [&](const Piece &piece) {
    if (piece.device != device) return false; // its event wants its own device bound
    int32_t status = acl::event_not_ready;
    if (runtime_.library.aclrtQueryEventStatus(piece.passed->native, &status) || status != acl::event_complete)
      return false;
    if (piece.pinned)
      pages_.push_back(piece);
    else
      free(piece);
    return true;
  });
}

Scratch::Piece Scratch::pinned_page(int32_t device) {
  {
    std::lock_guard lock(mutex_);
    const auto fitting = [&] {
      return std::find_if(pages_.begin(), pages_.end(), [&](const Piece &page) { return page.device == device; });
    };
    auto found = fitting();
    if (found == pages_.end() && pending_.size() >= collect_at) {
      collect(device);
      found = fitting();
    }
    if (found != pages_.end()) {
      Piece page = *found;
      pages_.erase(found);
      return page;
    }
  }
  Piece page{nullptr, true, device, nullptr};
  runtime_.call(runtime_.library.aclrtMallocHost, &page.memory, size_t(page_bytes));
  return page;
}

Scratch::Piece Scratch::device_block(int32_t device, uint64_t size) {
  {
    std::lock_guard lock(mutex_);
    collect(device); // blocks may be large: none is kept longer than needed
  }
  Piece block{nullptr, false, device, nullptr};
  runtime_.call(runtime_.library.aclrtMalloc, &block.memory, size_t(size), int32_t(acl::huge_pages_first));
  return block;
}

void Scratch::passes(Piece piece, acl::Stream stream) {
  try {
    const bool old = !runtime_.library.aclrtCreateEventExWithFlag; // those take one record each
    if (!piece.passed || old) piece.passed = std::make_shared<NativeEvent>(runtime_, piece.device, false, host_);
    runtime_.call(runtime_.library.aclrtRecordEvent, piece.passed->native, stream);
    std::lock_guard lock(mutex_);
    pending_.push_back(piece);
  } catch (...) {
    // Without an event only a query of the stream shows whether the work is done.
    runtime_.library.aclrtSynchronizeStream(stream);
    free(piece);
    throw;
  }
}

void Scratch::give_back(Piece piece) noexcept { free(piece); }

void Scratch::free(const Piece &piece) noexcept {
  const Library &library = runtime_.library;
  runtime_.give_back_and_log(piece.device, host_, piece.pinned ? library.aclrtFreeHost : library.aclrtFree,
                             piece.memory);
}

void Scratch::clear() noexcept {
  for (auto *pieces : {&pages_, &pending_}) {
    for (const Piece &piece : *pieces) free(piece);
    pieces->clear();
  }
}

} // namespace tb::drivers::npu

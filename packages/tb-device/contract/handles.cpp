// Blocks, streams, events and threads that cases hold.
#include <exception>
#include <mutex>
#include <utility>

#include "contract/kit.h"

namespace tb::contract {

// A destructor checks unless an exception is on its way already: two at once would end the program.
static bool may_throw() { return std::uncaught_exceptions() == 0; }

Block::Block(Kit &kit, uint64_t size, int32_t device) : kit_(kit), device_(device), size_(size) {
  CHECK_OK(kit.api().mem_alloc(kit.self(), device, size, 0, &data_));
}

Block::~Block() noexcept(false) {
  Kit &kit = kit_;
  const tb_status status = kit.api().mem_free(kit.self(), device_, data_);
  if (may_throw()) CHECK_OK(status);
}

void Block::fill(uint8_t byte) {
  Kit &kit = kit_;
  tb_stream *stream = kit.default_stream(device_);
  CHECK_OK(kit.api().mem_set(kit.self(), device_, stream, data_, byte, 1, size_));
  kit.synchronize(stream);
}

std::vector<uint8_t> Block::read() const { return kit_.bytes_of(data_, size_, device_); }

void Block::write(const std::vector<uint8_t> &bytes) {
  if (bytes.size() > size_) throw Failed("the case writes more than its block holds");
  kit_.to_device(data_, bytes.data(), bytes.size(), device_);
}

Stream::Stream(Kit &kit, int32_t device, int32_t priority) : kit_(kit) {
  if (!kit.has_async()) throw NotOffered("no group ASYNC");
  CHECK_OK(kit.api().stream_create(kit.self(), device, priority, 0, &stream_));
}

Stream::~Stream() noexcept(false) {
  Kit &kit = kit_;
  const tb_status status = kit.api().stream_destroy(kit.self(), stream_);
  if (may_throw()) CHECK_OK(status);
}

Event::Event(Kit &kit, uint64_t flags, int32_t device) : kit_(kit) {
  if (!kit.has_async()) throw NotOffered("no group ASYNC");
  CHECK_OK(kit.api().event_create(kit.self(), device, flags, &event_));
}

Event::~Event() noexcept(false) {
  Kit &kit = kit_;
  const tb_status status = kit.api().event_destroy(kit.self(), event_);
  if (may_throw()) CHECK_OK(status);
}

struct Threads::State {
  std::mutex mutex;
  std::exception_ptr first;
};

Threads::~Threads() {
  for (std::thread &thread : threads_) thread.join();
}

void Threads::start(std::function<void()> body) {
  if (!state_) state_ = std::make_shared<State>();
  threads_.emplace_back([state = state_, body = std::move(body)] {
    try {
      body();
    } catch (...) {
      std::lock_guard lock(state->mutex);
      if (!state->first) state->first = std::current_exception();
    }
  });
}

void Threads::join() {
  for (std::thread &thread : threads_) thread.join();
  threads_.clear();
  if (state_ && state_->first) std::rethrow_exception(std::exchange(state_->first, nullptr));
}

} // namespace tb::contract

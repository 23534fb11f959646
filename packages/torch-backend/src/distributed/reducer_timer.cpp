// reducer_timer.cpp -- DDP's times of forward, backward and communication, from events of the current stream.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <optional>

namespace tb::distributed {
namespace {

class StreamTimer final : public c10d::Timer {
public:
  explicit StreamTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);
    std::optional<c10::Event> &made = events_[static_cast<size_t>(event)];
    if (!made) made.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    made->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const std::optional<c10::Event> &from = events_[static_cast<size_t>(start)],
                                    &to = events_[static_cast<size_t>(end)];
    if (!from || !to || !getTimestamp(start) || !getTimestamp(end)) return std::nullopt;
    from->synchronize();
    to->synchronize();
    const double nanoseconds = from->elapsedTime(*to) * 1e6;
    if (nanoseconds < 0) return std::nullopt; // the events are of two iterations
    return static_cast<int64_t>(nanoseconds);
  }

private:
  const c10::Device device_;
  std::array<std::optional<c10::Event>, 5> events_; // one for each Event of c10d::Timer
};

} // namespace
} // namespace tb::distributed

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, tb::distributed::StreamTimer)
} // namespace c10d

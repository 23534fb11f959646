// Work of the kit's own in stream order.
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

#include "contract/kit.h"

namespace tb::contract {
namespace {

// Builds `Work` in the stream's own queue; run(Work &, context) gives the status.
template <class Work, auto Run> void commit(Kit &kit, tb_stream *stream, Work work) {
  static constexpr tb_closure closure = {sizeof(tb_closure), 0, "tb_contract_work",
                                         [](void *storage, const tb_closure_context *context) -> tb_status {
                                           return Run(*static_cast<Work *>(storage), *context);
                                         },
                                         [](void *storage) { static_cast<Work *>(storage)->~Work(); }};
  void *storage = nullptr;
  CHECK_OK(kit.api().closure_reserve(kit.self(), stream, sizeof(Work), &storage));
  new (storage) Work(std::move(work));
  CHECK_OK(kit.api().closure_commit(kit.self(), stream, storage, &closure));
}

tb_status run_function(std::function<void()> &function, const tb_closure_context &) {
  function();
  return TB_OK;
}

struct Failure {
  tb_status status;
  const char *text;
};

tb_status run_failure(Failure &failure, const tb_closure_context &context) {
  if (context.error_text && context.error_capacity)
    std::snprintf(context.error_text, context.error_capacity, "%s", failure.text);
  return failure.status;
}

// Copies of the device's own, for drivers that run no function of the host.
class DeviceWork {
public:
  static constexpr uint64_t byte_count = uint64_t(8) << 20;
  explicit DeviceWork(Kit &kit) : from_(kit, byte_count), to_(kit, byte_count) {
    from_.fill(1);
    queue(kit, kit.default_stream(), 1); // the first one also pays for what later ones find ready
    kit.synchronize(kit.default_stream());
    constexpr uint64_t rounds = 8;
    const double start = seconds_now();
    queue(kit, kit.default_stream(), rounds);
    kit.synchronize(kit.default_stream());
    milliseconds_ = std::max(1e-4, (seconds_now() - start) * 1000 / rounds);
  }
  void queue_milliseconds(Kit &kit, tb_stream *stream, double milliseconds) {
    queue(kit, stream, static_cast<uint64_t>(std::ceil(milliseconds / milliseconds_)));
  }

private:
  void queue(Kit &kit, tb_stream *stream, uint64_t times) {
    for (uint64_t i = 0; i < times; ++i)
      CHECK_OK(
          kit.api().mem_copy(kit.self(), 0, stream, to_.data(), from_.data(), byte_count, TB_COPY_DEVICE_TO_DEVICE));
  }
  Block from_, to_;
  double milliseconds_ = 0;
};

bool can_submit(const Kit &kit) { return kit.offers(TB_GROUP_CLOSURE) || kit.offers(TB_GROUP_HOSTCALL); }

} // namespace

void need_submit(const Kit &kit) {
  if (!can_submit(kit)) throw NotOffered("neither CLOSURE nor HOSTCALL");
}

void submit(Kit &kit, tb_stream *stream, std::function<void()> function) {
  if (kit.offers(TB_GROUP_CLOSURE))
    return commit<std::function<void()>, run_function>(kit, stream, std::move(function));
  need_submit(kit);
  auto held = std::make_unique<std::function<void()>>(std::move(function));
  CHECK_OK(kit.api().stream_host_call(
      kit.self(), stream,
      [](void *user, tb_status) {
        std::unique_ptr<std::function<void()>> taken(static_cast<std::function<void()> *>(user));
        (*taken)();
      },
      held.get()));
  held.release(); // the call frees it
}

void submit_failure(Kit &kit, tb_stream *stream, tb_status status, const char *text) {
  if (!kit.offers(TB_GROUP_CLOSURE)) throw NotOffered("no group CLOSURE");
  commit<Failure, run_failure>(kit, stream, {status, text});
}

void submit_delay(Kit &kit, tb_stream *stream, double milliseconds) {
  if (can_submit(kit))
    return submit(kit, stream, [milliseconds] {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
    });
  if (!kit.has_async()) throw NotOffered("no group ASYNC");
  std::shared_ptr<void> &kept = kit.delay();
  if (!kept) kept = std::make_shared<DeviceWork>(kit);
  static_cast<DeviceWork *>(kept.get())->queue_milliseconds(kit, stream, milliseconds);
}

struct Gate::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  bool is_reached = false;
};

Gate::Gate(Kit &kit, tb_stream *stream) : kit_(kit), stream_(stream), state_(std::make_shared<State>()) {
  submit(kit, stream, [state = state_] {
    std::unique_lock lock(state->mutex);
    state->is_reached = true;
    state->changed.wait(lock, [&] { return state->is_open; });
  });
}

Gate::~Gate() {
  open();
  kit_.api().stream_synchronize(kit_.self(), stream_);
  kit_.take_error();
}

void Gate::open() {
  std::lock_guard lock(state_->mutex);
  state_->is_open = true;
  state_->changed.notify_all();
}

bool Gate::reached() const {
  std::lock_guard lock(state_->mutex);
  return state_->is_reached;
}

} // namespace tb::contract

// work.cpp -- see work.h.
#include "work.h"

#include "stream_order.h"

#include <ATen/core/ivalue.h>

namespace tb::distributed {

bool host_waits = false;

namespace {

// Keeps a dropped call's memory until the engine is done with it. Nobody asked for its result, so a failure is raised by the
// next call of the group only.
struct KeepUntilDone : AwaitResult {
  std::vector<c10::Storage> storages;
  std::vector<StagedCopy> copies;
  std::string operator()() {
    collective->wait();
    return "";
  }
};
constexpr tb_closure keep_until_done = closure_kind<KeepUntilDone>("dropped work of c10d::");

class CurrentStream {
public:
  CurrentStream(int32_t device, tb_stream *stream) : device_(device), before_(current_stream(device)) {
    check(runtime.stream.set_current(device, stream), "set_current", device);
  }
  ~CurrentStream() { runtime.stream.set_current(device_, before_); }
  CurrentStream(const CurrentStream &) = delete;
  CurrentStream &operator=(const CurrentStream &) = delete;

private:
  const int32_t device_;
  tb_stream *const before_;
};

} // namespace

DeviceWork::DeviceWork(std::shared_ptr<CallOrder> order, EngineTensors &tensors, Tensors results)
    : c10d::Work(-1, tensors.operation().type), order_(std::move(order)), device_(tensors.device()),
      results_(std::move(results)), storages_(tensors.take_storages()), copies_(tensors.take_copies()) {}

void DeviceWork::synchronize() {
  if (future_) return future_->waitAndThrow(); // its event comes after the call and the way back of staged results
  tb_stream *stream = current_stream(device_);
  const bool was_done = wait_on_stream(stream);
  bring_results_back();
  if (was_done)
    storages_.clear();
  else
    release_storages(stream);
}

void DeviceWork::bring_results_back() {
  bring_back(copies_, device_);
  copies_.clear();
}

// What follows on the waiting stream follows the engine. The memory may belong to another stream, where it would be used
// again at once.
void DeviceWork::release_storages(tb_stream *waiting) {
  for (const c10::Storage &storage : storages_)
    if (tb_block *block = runtime.allocator.find(storage.data()))
      check(runtime.allocator.record_stream(block, waiting), "record_stream", device_);
  storages_.clear();
}

c10::intrusive_ptr<c10::ivalue::Future> DeviceWork::getFuture() {
  std::lock_guard lock(future_mutex_);
  if (future_) return future_;
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{make_device(device_)});
  try {
    // The Future's event comes after what its stream waits for, so no stream of the program may wait here.
    const CurrentStream side(device_, order_->side_stream(device_, CallOrder::Side::futures));
    synchronize();
    future->markCompleted(c10::IValue(results_));
  } catch (...) {
    future->setError(std::current_exception());
  }
  return future_ = future;
}

HostEngineWork::HostEngineWork(std::shared_ptr<Collective> collective, std::shared_ptr<CallOrder> order,
                               EngineTensors &tensors, Tensors results)
    : DeviceWork(std::move(order), tensors, std::move(results)), collective_(std::move(collective)) {}

HostEngineWork::~HostEngineWork() {
  if ((storages_.empty() && copies_.empty()) || isCompleted()) return;
  // It stays for ever where no closure can keep it: the engine may still write into it.
  auto *kept = new KeepUntilDone{{order_, collective_}, std::move(storages_), std::move(copies_)};
  if (!runtime.closures) return;
  try {
    enqueue(order_->side_stream(device_, CallOrder::Side::dropped), keep_until_done, std::move(*kept));
    delete kept;
  } catch (const std::exception &) { // at the end of the process
  }
}

bool HostEngineWork::isCompleted() {
  const bool done = collective_->done();
  if (done) tell_wait(nullptr, collective_.get());
  return done;
}

std::exception_ptr HostEngineWork::exception() const {
  try {
    if (collective_->done()) collective_->throw_failure();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

bool HostEngineWork::wait(std::chrono::milliseconds limit) {
  const bool on_host = opType_ == c10d::OpType::BARRIER || limit != kNoTimeout || host_waits || !runtime.closures;
  if (!on_host) {
    synchronize();
    return true;
  }
  TORCH_CHECK_WITH(DistBackendError, collective_->wait(limit),
                   order_->group().describe(collective_->operation(), collective_->number()), " was not done within ",
                   limit.count(), " ms: wait longer, or look for a rank that has not made this call");
  synchronize();
  return true;
}

bool HostEngineWork::wait_on_stream(tb_stream *stream) {
  if (!runtime.closures) collective_->wait();
  if (isCompleted()) {
    collective_->throw_failure();
    return true;
  }
  enqueue(stream, collective_->operation().wait, AwaitResult{order_, collective_});
  tell_wait(stream, collective_.get());
  return false;
}

StreamEngineWork::StreamEngineWork(c10::intrusive_ptr<c10d::Work> work, c10::DeviceType of_engine,
                                   std::shared_ptr<CallOrder> order, EngineTensors &tensors, Tensors results)
    : DeviceWork(std::move(order), tensors, std::move(results)), work_(std::move(work)), of_engine_(of_engine) {}

StreamEngineWork::~StreamEngineWork() {
  tell_end(work_.get());
  if (storages_.empty()) return;
  try {
    tb_stream *side = order_->side_stream(device_, CallOrder::Side::dropped);
    const CurrentStream current(device_, side);
    wait_on_stream(side);
    release_storages(side);
  } catch (const std::exception &) { // at the end of the process
  }
}

bool StreamEngineWork::wait(std::chrono::milliseconds limit) {
  if (opType_ == c10d::OpType::BARRIER || limit != kNoTimeout) {
    const OnStreams streams = on_streams(of_engine_, device_);
    if (!work_->wait(limit)) return false;
  }
  synchronize();
  if (host_waits) check(runtime.driver->stream_synchronize(runtime.self, current_stream(device_)), "wait", device_);
  return true;
}

bool StreamEngineWork::wait_on_stream(tb_stream *stream) {
  const OnStreams streams = on_streams(of_engine_, device_);
  work_->synchronize();
  tell_wait(stream, work_.get());
  return false;
}

} // namespace tb::distributed

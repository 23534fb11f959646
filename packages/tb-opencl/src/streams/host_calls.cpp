#include "opencl/failure.h"
#include "streams/stream.h"

namespace tb::opencl {

void HostCalls::add(Call call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  wake_.notify_one();
}

void HostCalls::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  wake_.notify_one();
}

void HostCalls::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stopped_ || !calls_.empty(); });
    if (calls_.empty()) break;
    const Call call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    cl_.clWaitForEvents(1, call.before.address());
    const cl_int state = call.before.state();
    call.function(call.user, state < 0 ? status_of(state) : call.covers.peek());
    cl_.clSetUserEventStatus(call.after.get(), CL_COMPLETE);
  }
  ended_ = true;
}

} // namespace tb::opencl

// stubs.cpp -- the events of the older profiler (torch.autograd.profiler.profile with use_kineto=False): one before and
// one behind each operator.
#include "registration.h"

#include <torch/csrc/profiler/stubs/base.h>

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ApproximateClock.h>

#include "components.h"

namespace tb::backend {
namespace {

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex *device, torch::profiler::impl::ProfilerVoidEventStub *event,
              int64_t *host_time) const override {
    const c10::impl::VirtualGuardImpl guard(device_type);
    const c10::Device current = guard.getDevice();
    if (device) *device = current.index();
    auto made = std::make_shared<c10::Event>(device_type, c10::EventFlag::BACKEND_DEFAULT);
    made->record(guard.getStream(current));
    *event = std::move(made);
    if (host_time) *host_time = c10::getTime();
  }
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub *from,
                const torch::profiler::impl::ProfilerVoidEventStub *to) const override {
    const auto &begin = *static_cast<c10::Event *>(from->get()), &end = *static_cast<c10::Event *>(to->get());
    begin.synchronize();
    end.synchronize();
    return static_cast<float>(begin.elapsedTime(end) * 1000); // microseconds
  }
  void onEachDevice(std::function<void(int)> call) const override {
    for (int32_t device = 0; device < device_count(); ++device) {
      const c10::DeviceGuard guard(make_device(device));
      call(device);
    }
  }
  void synchronize() const override {
    const c10::impl::VirtualGuardImpl guard(device_type);
    guard.synchronizeDevice(guard.getDevice().index());
  }
  bool enabled() const override { return true; }
  void mark(const char *) const override {}
  void rangePush(const char *) const override {}
  void rangePop() const override {}
};

} // namespace

void register_profiler_stubs() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

} // namespace tb::backend

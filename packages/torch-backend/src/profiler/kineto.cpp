// kineto.cpp -- tb in torch.profiler: a child of Kineto's profiler.
#include "registration.h"

#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <fmt/format.h>

#include <mutex>

#include "components.h"
#include "profiler/activities.h"
#include "tb/torch_versions.h"

namespace tb::backend {
namespace {

using libkineto::ActivityType;

tb_device_info device_info(int32_t device) {
  tb_device_info info{};
  info.struct_size = sizeof info;
  check(components.device.device_info(device, &info), "device_info", device);
  return info;
}

libkineto::DeviceInfo row_of(int32_t device) {
  return {device, device + libkineto::kExceedMaxPid, device_info(device).name, "tb " + std::to_string(device)};
}

class Session final : public libkineto::IActivityProfilerSession {
public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}

  void start() override {
    recording_.start();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    recording_.stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  // Pauses and goes on, as torch.profiler's toggle_collection_dynamic asks.
  virtual void toggleCollectionDynamic(bool on) {
    if (on)
      recording_.start();
    else
      recording_.stop();
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger &logger) override { processTrace(logger, nullptr, 0, INT64_MAX); }
  void processTrace(libkineto::ActivityLogger &logger, libkineto::getLinkedActivityCallback linked, int64_t from,
                    int64_t to) override {
    Activities activities(recording_, ranges_.enclosing, types_, std::move(linked), from, to);
    activities.add_all();
    activities.log(logger);
    streams_ = activities.streams();
    // One of the devices goes through getDeviceInfo, which tells Kineto that there are any.
    const std::vector<int32_t> devices = streams_.devices();
    for (size_t place = 1; place < devices.size(); ++place) logger.handleDeviceInfo(row_of(devices[place]), from);
    buffer_ = activities.take_buffer();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    const std::vector<int32_t> devices = streams_.devices();
    return devices.empty() ? nullptr : std::make_unique<libkineto::DeviceInfo>(row_of(devices.front()));
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return streams_.resources(); }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { components.stream.record_push(TB_PUSHED_OPERATOR, id); }
  void popCorrelationId() override { components.stream.record_pop(TB_PUSHED_OPERATOR); }
  void pushUserCorrelationId(uint64_t id) override {
    components.stream.record_push(TB_PUSHED_RANGE, id);
    ranges_.push(id);
  }
  void popUserCorrelationId() override {
    components.stream.record_pop(TB_PUSHED_RANGE);
    ranges_.pop();
  }

  // As CUDA's in the trace's "deviceProperties", which tools read.
  std::string getDeviceProperties() override {
    std::string out;
    for (int32_t device = 0; device < device_count(); ++device) {
      const tb_device_info info = device_info(device);
      out += fmt::format("{}{{\"id\": {}, \"name\": \"{}\", \"totalGlobalMem\": {}, \"numSms\": {}}}",
                         device ? ", " : "", device, info.name, info.total_memory, info.compute_units);
    }
    return out;
  }

private:
  // Which range encloses which. Ranges of a thread end in the reverse order, as calls do.
  struct Ranges {
    void push(uint64_t id) {
      std::lock_guard guard(mutex);
      auto &open = open_of_thread[std::this_thread::get_id()];
      if (!open.empty()) enclosing[id] = open.back();
      open.push_back(id);
    }
    void pop() {
      std::lock_guard guard(mutex);
      const auto open = open_of_thread.find(std::this_thread::get_id());
      if (open != open_of_thread.end() && !open->second.empty()) open->second.pop_back();
    }

    std::mutex mutex;
    std::unordered_map<std::thread::id, std::vector<uint64_t>> open_of_thread;
    EnclosingRanges enclosing;
  };

  const std::set<ActivityType> types_;
  Recording recording_;
  Ranges ranges_;
  StreamRows streams_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

static_assert(ToggleAgrees<libkineto::IActivityProfilerSession>);

class Profiler final : public libkineto::IActivityProfiler {
public:
  const std::string &name() const override { return name_; }
  const std::set<ActivityType> &availableActivities() const override { return types_; }
  // NULL while no device of tb is in use: there is nothing to record, and a profiler of the CPU must not open a driver.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType> &types,
                                                                 const libkineto::Config &) override {
    if (!types.contains(ActivityType::CONCURRENT_KERNEL) || readiness.load() != Readiness::ready) return nullptr;
    std::set<ActivityType> ours;
    std::ranges::set_intersection(types, types_, std::inserter(ours, ours.end()));
    return std::make_unique<Session>(std::move(ours));
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType> &types,
                                                                 const libkineto::Config &config) override {
    return configure(types, config);
  }

private:
  const std::string name_ = "tb";
  // Those that PyTorch takes for a backend outside of it.
  const std::set<ActivityType> types_{ActivityType::GPU_USER_ANNOTATION, ActivityType::GPU_MEMCPY,
                                      ActivityType::GPU_MEMSET, ActivityType::CONCURRENT_KERNEL,
                                      ActivityType::PRIVATEUSE1_RUNTIME};
};

} // namespace

void register_kineto_profiler() {
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
}

} // namespace tb::backend

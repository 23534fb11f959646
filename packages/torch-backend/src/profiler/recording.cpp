// recording.cpp -- starts and stops tb-stream's recorder.
#include "profiler/recording.h"

#include <chrono>
#include <limits>

#include <c10/util/ApproximateClock.h>
#include <c10/util/Exception.h>

#include "components.h"

namespace tb::backend {
namespace {

int64_t steady_time() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The steady clock and that of the date have the same speed, so one difference is enough. The best of some measurements
// counts.
int64_t measure_since_1970() {
  int64_t best = 0, shortest = std::numeric_limits<int64_t>::max();
  for (int turn = 0; turn < 32; ++turn) {
    const int64_t before = steady_time(), date = c10::getTime(), after = steady_time();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = date - (before + after) / 2;
  }
  return best;
}

void synchronize_devices() {
  const int32_t count = device_count();
  for (int32_t device = 0; device < count; ++device) {
    const tb_status status = components.api->device_synchronize(components.driver, device);
    if (status == TB_OK) continue;
    char text[2048];
    components.device.describe_error(status, "device_synchronize", device, text, sizeof text);
    TORCH_WARN("The profiler waited for tb:", device, " at its end, and work there had failed: ", text);
  }
}

} // namespace

Recording::~Recording() {
  if (recording_) (void)components.stream.record_stop(recording_, nullptr, nullptr);
}

void Recording::start() {
  if (!recording_) check(components.stream.record_start(&recording_), "record_start");
}

void Recording::stop() {
  if (!recording_) return;
  synchronize_devices();
  const auto keep = [](void *user, const tb_record *record) {
    static_cast<std::vector<tb_record> *>(user)->push_back(*record);
  };
  const tb_status status = components.stream.record_stop(std::exchange(recording_, nullptr), keep, &records_);
  since_1970_ = measure_since_1970();
  check(status, "record_stop");
}

} // namespace tb::backend

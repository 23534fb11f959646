// The capture of a step. It runs what it captures: at its end, or where the host needs a result, whatever comes first.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tb/component.h"

#include "step/observation.h"

namespace tb::compile {

// Used by one thread at a time; autograd's threads may interrupt the capture meanwhile.
class StepCapture {
public:
  // Captures what is queued on the current stream of the current device. find_place: called without arguments where
  // the capture is interrupted; returns the line of Python, or "".
  explicit StepCapture(nanobind::object find_place);
  ~StepCapture();
  StepCapture(const StepCapture &) = delete;
  StepCapture &operator=(const StepCapture &) = delete;

  // Ends the capture and runs its work once, unless an interruption has done that.
  void complete();
  // Why, and where, the capture was interrupted; "" if it was not.
  std::string interruption() const;
  const std::string &place() const { return place_; }
  bool is_interrupted() const;
  // The number of events that were recorded inside and are in use after complete().
  uint64_t open_events() const { return open_events_; }
  // Interrupts the capture for a reason of the caller's.
  void interrupt(const std::string &reason);

  // Queues the captured work on the current stream.
  void launch() const;
  Observation &observation() { return *observation_; }
  int32_t device() const { return device_; }

private:
  static void interrupted(void *self);

  nanobind::object find_place_; // None after complete(), so that no cycle goes through this object
  std::string place_;
  int32_t device_ = -1;
  tb_stream *stream_ = nullptr; // that captures
  tb_capture *capture_ = nullptr;
  uint64_t open_events_ = 0;
  std::unique_ptr<Observation> observation_;
};

} // namespace tb::compile

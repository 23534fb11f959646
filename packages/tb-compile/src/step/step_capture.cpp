// Begins, interrupts and ends the capture of a step.
#include "step/step_capture.h"

#include <nanobind/stl/string.h>

#include <c10/util/Exception.h>

#include <utility>

#include "device/components.h"

namespace nb = nanobind;

namespace tb::compile {

StepCapture::StepCapture(nb::object find_place)
    : find_place_(std::move(find_place)), device_(components.device.current_device()),
      stream_(components.stream.current(device_)) {
  {
    const nb::gil_scoped_release release; // components may wait for the device
    check(components.stream.capture_begin(device_, stream_, 0, &capture_), "capture_begin", device_);
  }
  const tb_status status = components.stream.capture_allow_interruption(capture_, &StepCapture::interrupted, this);
  if (status != TB_OK) {
    components.stream.capture_destroy(std::exchange(capture_, nullptr));
    check(status, "capture_allow_interruption", device_);
  }
  observation_ = std::make_unique<Observation>(device_, stream_, components.stream.capture_pool(capture_));
  observation_->start();
}

StepCapture::~StepCapture() {
  observation_->stop();
  components.stream.capture_destroy(capture_);
}

void StepCapture::interrupted(void *given) {
  auto *self = static_cast<StepCapture *>(given);
  self->observation_->stop();
  if (!nb::is_alive()) return;
  const nb::gil_scoped_acquire lock;
  try {
    self->place_ = nb::cast<std::string>(self->find_place_());
  } catch (const std::exception &) { // the place stays unknown
  }
}

void StepCapture::complete() {
  observation_->stop();
  const nb::gil_scoped_release release;
  check(components.stream.capture_complete(capture_, &open_events_), "capture_complete", device_);
}

std::string StepCapture::interruption() const { return components.stream.capture_interruption(capture_); }

bool StepCapture::is_interrupted() const { return *components.stream.capture_interruption(capture_) != 0; }

void StepCapture::interrupt(const std::string &reason) {
  int32_t captures = 0;
  const nb::gil_scoped_release release;
  check(components.stream.capture_interrupt(stream_, reason.c_str(), &captures), "capture_interrupt", device_);
}

void StepCapture::launch() const {
  check(components.stream.capture_launch(capture_, components.stream.current(device_)), "capture_launch", device_);
}

} // namespace tb::compile

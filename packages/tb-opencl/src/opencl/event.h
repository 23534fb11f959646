// A counted reference to an event of OpenCL.
#pragma once

#include <utility>

#include "opencl/library.h"

namespace tb::opencl {

class Event {
public:
  Event() = default;
  // Takes over a reference.
  Event(const Functions &cl, cl_event event) : cl_(&cl), event_(event) {}
  Event(const Event &other) : cl_(other.cl_), event_(other.event_) {
    if (event_) cl_->clRetainEvent(event_);
  }
  Event(Event &&other) noexcept : cl_(other.cl_), event_(std::exchange(other.event_, nullptr)) {}
  Event &operator=(Event other) noexcept {
    std::swap(cl_, other.cl_), std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_) cl_->clReleaseEvent(event_);
  }

  explicit operator bool() const { return event_ != nullptr; }
  cl_event get() const { return event_; }
  const cl_event *address() const { return &event_; }
  // CL_COMPLETE, a number above for work that is not done, or below for a failure. CL_COMPLETE without an event.
  cl_int state() const {
    cl_int state = CL_COMPLETE;
    if (!event_) return state;
    const cl_int code = cl_->clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
    return code == CL_SUCCESS ? state : code;
  }

private:
  const Functions *cl_ = nullptr;
  cl_event event_ = nullptr;
};

} // namespace tb::opencl

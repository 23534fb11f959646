// Recorded commands (cl_khr_command_buffer), which a queue runs as one.
#pragma once

#include "devices/platforms.h"
#include "graph/nodes.h"

namespace tb::opencl {

// Why command buffers of the device cannot hold what streams capture; empty if they can.
std::string find_graphs_obstacle(const Functions &cl, const Device &device);

class CommandBuffer {
public:
  CommandBuffer() = default;
  CommandBuffer(const Functions &cl, cl_command_buffer_khr buffer) : cl_(&cl), buffer_(buffer) {}
  CommandBuffer(CommandBuffer &&other) noexcept : cl_(other.cl_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  CommandBuffer &operator=(CommandBuffer &&other) noexcept {
    std::swap(cl_, other.cl_), std::swap(buffer_, other.buffer_);
    return *this;
  }
  // What is queued of it still runs.
  ~CommandBuffer() {
    if (buffer_) cl_->clReleaseCommandBufferKHR(buffer_);
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  cl_command_buffer_khr get() const { return buffer_; }

private:
  const Functions *cl_ = nullptr;
  cl_command_buffer_khr buffer_ = nullptr;
};

// Records the nodes, which run in their order on any queue with the properties of `queue`, an in-order one. Checks in
// kernels report to `failures`: the number of a launch is its place from 1 on.
cl_int record(const Functions &cl, Memory &memory, cl_command_queue queue, NodeList &list, const FailureWord &failures,
              CommandBuffer *out);

} // namespace tb::opencl

#include "graph/command_buffer.h"

#include <cstdio>

namespace tb::opencl {
namespace {

constexpr cl_uint version_of(cl_uint major, cl_uint minor, cl_uint patch) { return major << 22 | minor << 12 | patch; }

cl_int add_transfer(const Functions &cl, cl_command_buffer_khr buffer, const Transfer &one) {
  if (one.src)
    return cl.clCommandSVMMemcpyKHR(buffer, nullptr, nullptr, one.dst, one.src, one.size, 0, nullptr, nullptr, nullptr);
  return cl.clCommandSVMMemFillKHR(buffer, nullptr, nullptr, one.dst, one.pattern, one.unit, one.size, 0, nullptr,
                                   nullptr, nullptr);
}

cl_int add_call(const Functions &cl, Memory &memory, cl_command_buffer_khr buffer, const KernelCall &call,
                uint64_t number, const FailureWord &failures) {
  uint64_t known = 0;
  cl_int code = memory.reach_blocks(call.get(), &known);
  if (call.failure_argument && code == CL_SUCCESS)
    code = failures.set_arguments(call.get(), *call.failure_argument, number);
  if (code != CL_SUCCESS) return code;
  return cl.clCommandNDRangeKernelKHR(buffer, nullptr, nullptr, call.get(), 3, nullptr, call.grid.global,
                                      call.grid.local, 0, nullptr, nullptr, nullptr);
}

} // namespace

std::string find_graphs_obstacle(const Functions &cl, const Device &device) {
  if (!device.has("cl_khr_command_buffer")) return device.name + " has no cl_khr_command_buffer";
  // Copies and fills between pointers came with 0.9.4, and the form of all commands with 0.9.5.
  const cl_uint version = extension_version(cl, device.id, "cl_khr_command_buffer");
  if (version < version_of(0, 9, 5) ||
      !(cl.clCreateCommandBufferKHR && cl.clReleaseCommandBufferKHR && cl.clFinalizeCommandBufferKHR &&
        cl.clEnqueueCommandBufferKHR && cl.clCommandNDRangeKernelKHR && cl.clCommandSVMMemcpyKHR &&
        cl.clCommandSVMMemFillKHR)) {
    char text[120];
    std::snprintf(text, sizeof text, " has cl_khr_command_buffer %u.%u.%u, and shared memory needs 0.9.5",
                  version >> 22, version >> 12 & 1023, version & 4095);
    return device.name + text;
  }
  const auto fact = [&](cl_uint name, cl_ulong otherwise) {
    return device_number<cl_ulong>(cl, device.id, name, otherwise);
  };
  if (!(fact(CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, 0) & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR))
    return device.name + " queues no command buffer again before it is done";
  const cl_ulong needed = fact(CL_DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES_KHR, 0);
  const cl_ulong allowed = fact(CL_DEVICE_COMMAND_BUFFER_SUPPORTED_QUEUE_PROPERTIES_KHR, CL_QUEUE_PROFILING_ENABLE);
  if (needed & ~cl_ulong{CL_QUEUE_PROFILING_ENABLE} || !(allowed & CL_QUEUE_PROFILING_ENABLE))
    return device.name + " takes command buffers on other queues than in-order ones with profiling";
  return "";
}

cl_int record(const Functions &cl, Memory &memory, cl_command_queue queue, NodeList &list, const FailureWord &failures,
              CommandBuffer *out) {
  const cl_ulong properties[] = {CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
  cl_int code = CL_SUCCESS;
  CommandBuffer made(cl, cl.clCreateCommandBufferKHR(1, &queue, properties, &code));
  const std::lock_guard lock(list.recording);
  uint64_t number = 0;
  for (const Node &node : list.nodes) {
    ++number;
    for (const Transfer &one : node.transfers)
      if (code == CL_SUCCESS) code = add_transfer(cl, made.get(), one);
    if (node.call && code == CL_SUCCESS) code = add_call(cl, memory, made.get(), *node.call, number, failures);
  }
  if (code == CL_SUCCESS) code = cl.clFinalizeCommandBufferKHR(made.get());
  if (code == CL_SUCCESS) *out = std::move(made);
  return code;
}

} // namespace tb::opencl

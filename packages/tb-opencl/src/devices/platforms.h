// The devices of all OpenCL platforms of this machine, and the choice among them.
#pragma once

#include <string>
#include <vector>

#include "opencl/library.h"

namespace tb::opencl {

// How the host and a device share memory by pointers.
enum class Sharing {
  none,
  coarse, // shared virtual memory that the host reaches by copies only
  fine,   // shared virtual memory that the host reads and writes as its own
  usm     // Intel's unified shared memory: memory of the device, and memory of the host that the device reaches
};

struct Device {
  cl_platform_id platform;
  cl_device_id id;
  std::string platform_name, name, extensions;
  cl_ulong type; // CL_DEVICE_TYPE_*
  Sharing sharing;

  bool is_cpu() const { return type & CL_DEVICE_TYPE_CPU; }
  bool has(const char *extension) const;
};

// An extension's version of a device as `major << 22 | minor << 12 | patch`; 0 where it has none or does not tell.
cl_uint extension_version(const Functions &cl, cl_device_id id, const char *extension);

// A text, or a number, of a device; empty, or `otherwise`, where the implementation has none.
std::string device_text(const Functions &cl, cl_device_id id, cl_uint fact);
template <class Number> Number device_number(const Functions &cl, cl_device_id id, cl_uint fact, Number otherwise) {
  Number value = otherwise;
  return cl.clGetDeviceInfo(id, fact, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

// Chooses devices of one platform, for memory is shared within a platform only.
//
// `asked` is the driver's option "device", or null: "gpu", "cpu" or "accelerator", or a part of "platform: device" in any
// case, with ":N" behind it for the one of that number (from 0) among those that fit. Without it GPUs and accelerators
// come before processors. `memory` is the option "memory": "usm", "fine" or "coarse"; null for the best of each device.
// TB_UNAVAILABLE if nothing fits, with a text that lists what there is.
tb_status choose_devices(const tb_host *host, const Functions &cl, const char *asked, const char *memory,
                         std::vector<Device> *out);

} // namespace tb::opencl

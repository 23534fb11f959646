#include "devices/platforms.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

#include "opencl/failure.h"

namespace tb::opencl {
namespace {

std::string platform_text(const Functions &cl, cl_platform_id id, cl_uint fact) {
  char text[256] = "";
  cl.clGetPlatformInfo(id, fact, sizeof text - 1, text, nullptr);
  return text;
}

std::string lower(std::string text) {
  for (char &c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const char *name_of(Sharing sharing) {
  switch (sharing) {
  case Sharing::none:
    return "no shared virtual memory";
  case Sharing::coarse:
    return "coarse-grained shared virtual memory";
  case Sharing::fine:
    return "fine-grained shared virtual memory";
  case Sharing::usm:
    return "unified shared memory";
  }
  return "";
}

bool offers(const Functions &cl, const Device &device, Sharing sharing) {
  const cl_ulong svm = device_number<cl_ulong>(cl, device.id, CL_DEVICE_SVM_CAPABILITIES, 0);
  const auto usm = [&](cl_uint fact) {
    return device_number<cl_ulong>(cl, device.id, fact, 0) & CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL;
  };
  switch (sharing) {
  case Sharing::none:
    return true;
  case Sharing::coarse:
    return svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
  case Sharing::fine: // the words in which kernels note their failures need atomic operations that the host sees
    return (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) && (svm & CL_DEVICE_SVM_ATOMICS);
  case Sharing::usm:
    return device.has("cl_intel_unified_shared_memory") && usm(CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL) &&
           usm(CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL);
  }
  return false;
}

// Where the device's memory is the host's, the host reads it in place; elsewhere memory of the device is faster.
Sharing best_sharing(const Functions &cl, const Device &device) {
  const bool unified = device_number<cl_bool>(cl, device.id, CL_DEVICE_HOST_UNIFIED_MEMORY, 0);
  const Sharing order[] = {unified ? Sharing::fine : Sharing::usm, unified ? Sharing::usm : Sharing::fine,
                           Sharing::coarse};
  for (const Sharing sharing : order)
    if (offers(cl, device, sharing)) return sharing;
  return Sharing::none;
}

std::vector<Device> list_devices(const Functions &cl) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  std::vector<Device> out;
  if (cl.clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) return out;
  for (cl_uint p = 0; p < std::min<cl_uint>(count, 16); ++p) {
    cl_device_id ids[32];
    cl_uint found = 0;
    if (cl.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 32, ids, &found) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < std::min<cl_uint>(found, 32); ++d)
      out.push_back({platforms[p], ids[d], platform_text(cl, platforms[p], CL_PLATFORM_NAME),
                     device_text(cl, ids[d], CL_DEVICE_NAME), device_text(cl, ids[d], CL_DEVICE_EXTENSIONS),
                     device_number<cl_ulong>(cl, ids[d], CL_DEVICE_TYPE, 0), Sharing::none});
  }
  return out;
}

// What the option "device" asks for.
struct Wish {
  std::string text; // in lower case; empty: any
  int number = -1;  // among those that fit; -1: all

  explicit Wish(const char *asked) : text(lower(asked ? asked : "")) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon + 1 == text.size()) return;
    int value = 0;
    const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return;
    number = value, text.resize(colon);
  }
  bool fits(const Device &device) const {
    if (text == "cpu") return device.is_cpu();
    if (text == "gpu") return device.type & CL_DEVICE_TYPE_GPU;
    if (text == "accelerator") return device.type & CL_DEVICE_TYPE_ACCELERATOR;
    return lower(device.platform_name + ": " + device.name).find(text) != std::string::npos;
  }
};

} // namespace

bool Device::has(const char *extension) const {
  return (" " + extensions + " ").find(std::string(" ") + extension + " ") != std::string::npos;
}

cl_uint extension_version(const Functions &cl, cl_device_id id, const char *extension) {
  size_t size = 0;
  if (cl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS_WITH_VERSION, 0, nullptr, &size) != CL_SUCCESS) return 0;
  std::vector<cl_name_version> all(size / sizeof(cl_name_version));
  if (cl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS_WITH_VERSION, size, all.data(), nullptr) != CL_SUCCESS) return 0;
  for (const cl_name_version &one : all)
    if (std::strcmp(one.name, extension) == 0) return one.version;
  return 0;
}

std::string device_text(const Functions &cl, cl_device_id id, cl_uint fact) {
  size_t size = 0;
  if (cl.clGetDeviceInfo(id, fact, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (cl.clGetDeviceInfo(id, fact, size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(std::strlen(text.c_str()));
  return text;
}

tb_status choose_devices(const tb_host *host, const Functions &cl, const char *asked, const char *memory,
                         std::vector<Device> *out) {
  std::vector<Device> all = list_devices(cl);
  if (all.empty())
    return fail(host, TB_UNAVAILABLE, 0,
                "OpenCL's loader finds no device. Install the OpenCL driver of the device; each has a file in "
                "/etc/OpenCL/vendors, or in the folder that OCL_ICD_VENDORS names");
  const std::string kind = memory ? memory : "";
  if (!kind.empty() && kind != "usm" && kind != "fine" && kind != "coarse")
    return fail(host, TB_INVALID_ARGUMENT, 0, "the option \"memory\" is \"%s\"; it takes usm, fine or coarse", memory);
  const Sharing wanted = kind == "usm" ? Sharing::usm : kind == "fine" ? Sharing::fine : Sharing::coarse;

  const Wish wish(asked);
  std::string there;
  std::vector<Device> usable;
  for (Device &device : all) {
    device.sharing = kind.empty() ? best_sharing(cl, device) : offers(cl, device, wanted) ? wanted : Sharing::none;
    there += (there.empty() ? "" : "; ") + device.platform_name + ": " + device.name + " (" +
             (device.sharing == Sharing::none && !kind.empty() ? "no memory " + kind : name_of(device.sharing)) + ")";
    if (device.sharing != Sharing::none && wish.fits(device)) usable.push_back(device);
  }
  // GPUs and accelerators come first, in the order of the platforms.
  std::stable_partition(usable.begin(), usable.end(), [](const Device &device) { return !device.is_cpu(); });
  for (const Device &device : usable) {
    const Device &first = usable.front();
    const bool beside = device.platform == first.platform && device.is_cpu() == first.is_cpu();
    if (beside && device.sharing == first.sharing) out->push_back(device);
  }
  if (wish.number >= 0 && static_cast<size_t>(wish.number) < out->size())
    *out = {(*out)[static_cast<size_t>(wish.number)]};
  else if (wish.number >= 0)
    out->clear();
  if (!out->empty()) return TB_OK;
  return fail(host, TB_UNAVAILABLE, 0,
              "no OpenCL device fits%s%s%s. The driver needs shared virtual memory, and takes devices of one platform. "
              "There is: %s",
              asked ? " the option \"device\" = \"" : "", asked ? asked : "", asked ? "\"" : "", there.c_str());
}

} // namespace tb::opencl

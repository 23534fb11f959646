// device_api.cpp -- initialisation, devices and contexts.
#include <cstdio>
#include <cstring>

#include "capture.h"

namespace simcuda {
namespace {

Device *device_of(CUdevice number, CUresult *result) {
  World &all = world();
  if (!initialised()) {
    *result = CUDA_ERROR_NOT_INITIALIZED;
  } else if (number < 0 || static_cast<size_t>(number) >= all.devices.size()) {
    *result = CUDA_ERROR_INVALID_DEVICE;
  } else {
    *result = CUDA_SUCCESS;
    return all.devices[static_cast<size_t>(number)].get();
  }
  return nullptr;
}

int attribute_of(int attribute, int device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return 48 << 10;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return 96 << 10;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return 32;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return 4;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    return 16 + device;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return 8;
  case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
    return 0;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    return 1;
  default:
    return 0;
  }
}

void make_usable(Context &context) {
  if (context.alive) return;
  context.alive = true;
  context.legacy = std::make_unique<Stream>();
  context.legacy->context = &context;
  context.legacy->legacy = true;
  context.legacy->queue = std::make_shared<Queue>(context);
  context.queues.push_back(context.legacy->queue);
}

template <class Answer> CUresult about(CUdevice number, Answer answer) {
  Lock lock(world().mutex);
  CUresult result;
  Device *device = device_of(number, &result);
  return device ? answer(*device, lock) : result;
}

} // namespace
} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuInit(unsigned flags) {
  return call<"cuInit">([&]() -> CUresult {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (const uint64_t code = setting("TB_SIMCUDA_INIT", 0)) return static_cast<CUresult>(code);
    if (world().devices.empty()) return CUDA_ERROR_NO_DEVICE;
    initialise();
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuDriverGetVersion(int *version) {
  return call<"cuDriverGetVersion">([&]() -> CUresult {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = world().version;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuDeviceGetCount(int *count) {
  return call<"cuDeviceGetCount">([&]() -> CUresult {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    *count = static_cast<int>(world().devices.size());
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuDeviceGet(CUdevice *out, int ordinal) {
  return call<"cuDeviceGet">([&] {
    return about(ordinal, [&](Device &, Lock &) -> CUresult {
      *out = ordinal;
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDeviceGetName(char *name, int size, CUdevice number) {
  return call<"cuDeviceGetName">([&] {
    return about(number, [&](Device &, Lock &) -> CUresult {
      std::snprintf(name, static_cast<size_t>(size), "Simulated CUDA device");
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice number) {
  return call<"cuDeviceGetUuid_v2">([&] {
    return about(number, [&](Device &, Lock &) -> CUresult {
      std::memcpy(uuid->bytes, "simulated CUDA 0", 16);
      uuid->bytes[15] = static_cast<char>('0' + number);
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice number) {
  return call<"cuDeviceTotalMem_v2">([&] {
    return about(number, [&](Device &device, Lock &) -> CUresult {
      *bytes = device.arena.capacity();
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice number) {
  return call<"cuDeviceGetAttribute">([&] {
    return about(number, [&](Device &, Lock &) -> CUresult {
      *value = attribute_of(attribute, number);
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice number) {
  return call<"cuDevicePrimaryCtxRetain">([&] {
    return about(number, [&](Device &device, Lock &) -> CUresult {
      make_usable(device.context);
      ++device.context.retained;
      *out = reinterpret_cast<CUcontext>(&device.context);
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number) {
  return call<"cuDevicePrimaryCtxRelease_v2">([&] {
    return about(number, [&](Device &device, Lock &lock) -> CUresult {
      if (device.context.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
      if (--device.context.retained == 0 && device.context.alive) destroy_context(device.context, lock);
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuDevicePrimaryCtxGetState(CUdevice number, unsigned *flags, int *active) {
  return call<"cuDevicePrimaryCtxGetState">([&] {
    return about(number, [&](Device &device, Lock &) -> CUresult {
      *flags = 0;
      *active = device.context.alive;
      return CUDA_SUCCESS;
    });
  });
}

// Destroys everything in the context. Afterwards it is usable again, with the same number of references.
extern "C" CUresult cuDevicePrimaryCtxReset_v2(CUdevice number) {
  return call<"cuDevicePrimaryCtxReset_v2">([&] {
    return about(number, [&](Device &device, Lock &lock) -> CUresult {
      if (!device.context.alive) return CUDA_SUCCESS;
      const uint64_t before = world().abandoned;
      destroy_context(device.context, lock);
      world().abandoned = before; // objects that a reset destroys do not count as leaks
      if (device.context.retained) make_usable(device.context);
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuCtxGetCurrent(CUcontext *out) {
  return call<"cuCtxGetCurrent">([&]() -> CUresult {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    *out = current.empty() ? nullptr : reinterpret_cast<CUcontext>(current.back());
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuCtxSetCurrent(CUcontext context) {
  return call<"cuCtxSetCurrent">([&]() -> CUresult {
    if (!initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!current.empty()) current.pop_back();
    if (context) current.push_back(reinterpret_cast<Context *>(context));
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return call<"cuCtxPushCurrent_v2">([&]() -> CUresult {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    current.push_back(reinterpret_cast<Context *>(context));
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuCtxPopCurrent_v2(CUcontext *out) {
  return call<"cuCtxPopCurrent_v2">([&]() -> CUresult {
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = reinterpret_cast<CUcontext>(current.back());
    current.pop_back();
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuCtxGetDevice(CUdevice *out) {
  return call<"cuCtxGetDevice">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (context) *out = context->device;
    return result;
  });
}

extern "C" CUresult cuCtxSynchronize() {
  return call<"cuCtxSynchronize">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    for (const auto &capture : context->captures) capture->invalidated = true;
    if (!context->captures.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return drain(*context, lock);
  });
}

extern "C" CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return call<"cuCtxGetStreamPriorityRange">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    if (!current_context(&result)) return result;
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuDeviceCanAccessPeer(int *can, CUdevice number, CUdevice peer) {
  return call<"cuDeviceCanAccessPeer">([&] {
    return about(number, [&](Device &, Lock &) -> CUresult {
      CUresult result;
      if (!device_of(peer, &result)) return result;
      *can = number != peer;
      return CUDA_SUCCESS;
    });
  });
}

extern "C" CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return call<"cuCtxEnablePeerAccess">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    Context *other = reinterpret_cast<Context *>(peer);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!other || other == context || !other->alive) return CUDA_ERROR_INVALID_CONTEXT;
    return context->peers.insert(other).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

extern "C" CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return call<"cuCtxDisablePeerAccess">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    return context->peers.erase(reinterpret_cast<Context *>(peer)) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}

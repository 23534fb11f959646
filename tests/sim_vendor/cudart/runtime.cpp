// runtime.cpp -- the one device, streams and events whose work is done at once, errors, and the driver's functions.
#include "emulation.h"

#include <cstdio>
#include <cstring>

namespace emulation {
namespace {

thread_local cudaError_t last = cudaSuccess;
constexpr int version = CUDART_VERSION;

} // namespace

cudaError_t failed(cudaError_t error) { return last = error; }

} // namespace emulation

using namespace emulation;

CUDART_EMULATION_API cudaError_t cudaGetLastError(void) {
  cudaError_t error = last;
  last = cudaSuccess;
  return error;
}
CUDART_EMULATION_API const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "cudaSuccess";
  case cudaErrorMemoryAllocation:
    return "cudaErrorMemoryAllocation";
  case cudaErrorInvalidValue:
    return "cudaErrorInvalidValue";
  case cudaErrorNotSupported:
    return "cudaErrorNotSupported";
  default:
    return "another cudaError";
  }
}
CUDART_EMULATION_API const char *cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorNotSupported) return "the emulated CUDA runtime has no such function: use one with a GPU";
  return cudaGetErrorName(error);
}

CUDART_EMULATION_API cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
CUDART_EMULATION_API cudaError_t cudaDriverGetVersion(int *out) {
  *out = version;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device) {
  if (device != 0) return failed(cudaErrorInvalidDevice);
  *out = {};
  snprintf(out->name, sizeof out->name, "emulated CUDA device");
  out->totalGlobalMem = world().capacity;
  out->major = 9;
  out->multiProcessorCount = 1;
  out->warpSize = 32;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaDeviceCanAccessPeer(int *out, int, int) {
  *out = 0;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return failed(cudaErrorNotSupported); }
CUDART_EMULATION_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaDeviceSynchronize(void) {
  count(Call::synchronize);
  return cudaSuccess;
}

// Streams and events are addresses only.
CUDART_EMULATION_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned, int) {
  *out = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
CUDART_EMULATION_API cudaError_t cudaStreamSynchronize(cudaStream_t) {
  count(Call::synchronize);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  count(Call::wait);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *out) {
  *out = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus *out,
                                                          unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **,
                                                          const cudaGraphEdgeData **, size_t *) {
  *out = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *) { return cudaSuccess; }
CUDART_EMULATION_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *,
                                                              size_t *) {
  return failed(cudaErrorNotSupported);
}

CUDART_EMULATION_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
  *out = reinterpret_cast<cudaEvent_t>(new char);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<char *>(event);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  count(Call::record);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaEventQuery(cudaEvent_t) {
  count(Call::query);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaEventSynchronize(cudaEvent_t) {
  count(Call::synchronize);
  return cudaSuccess;
}
CUDART_EMULATION_API cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t) {
  return failed(cudaErrorNotSupported);
}

CUDART_EMULATION_API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned int,
                                                                  unsigned long long,
                                                                  cudaDriverEntryPointQueryResult *result) {
  *out = driver_function(name);
  if (result) *result = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// Which result is which status.
#include "drivers/cuda/status.h"

#include "drivers/common/error_text.h"
#include "drivers/cuda/library.h"

namespace tb::drivers::cuda {

bool is_sticky(CUresult result) {
  switch (result) {
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
    return true;
  default:
    return false;
  }
}

tb_status status_of(CUresult result) {
  if (is_sticky(result)) return TB_DEVICE_LOST;
  switch (result) {
  case CUDA_SUCCESS:
    return TB_OK;
  case CUDA_ERROR_NOT_READY:
    return TB_NOT_READY;
  case CUDA_ERROR_INVALID_VALUE:
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
  case CUDA_ERROR_INVALID_PTX:
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
  case CUDA_ERROR_INVALID_SOURCE:
  case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
  case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
  case CUDA_ERROR_INVALID_HANDLE:
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
  case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    return TB_INVALID_ARGUMENT;
  case CUDA_ERROR_OUT_OF_MEMORY:
    return TB_OUT_OF_MEMORY;
  case CUDA_ERROR_INVALID_DEVICE:
    return TB_OUT_OF_RANGE;
  case CUDA_ERROR_NOT_FOUND:
  case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
    return TB_NOT_FOUND;
  case CUDA_ERROR_ALREADY_MAPPED:
  case CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
  case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
    return TB_ALREADY_EXISTS;
  case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
  case CUDA_ERROR_NOT_SUPPORTED:
    return TB_UNSUPPORTED;
  case CUDA_ERROR_NOT_INITIALIZED:
  case CUDA_ERROR_DEINITIALIZED:
  case CUDA_ERROR_INVALID_CONTEXT:
  case CUDA_ERROR_ILLEGAL_STATE:
  case CUDA_ERROR_PEER_ACCESS_NOT_ENABLED:
  case CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE:
  case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
  case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
  case CUDA_ERROR_STREAM_CAPTURE_MERGE:
  case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
  case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
  case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
  case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
  case CUDA_ERROR_CAPTURED_EVENT:
  case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
  case CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
    return TB_FAILED_PRECONDITION;
  case CUDA_ERROR_NOT_PERMITTED:
    return TB_PERMISSION_DENIED;
  case CUDA_ERROR_TIMEOUT:
    return TB_DEADLINE_EXCEEDED;
  case CUDA_ERROR_STUB_LIBRARY:
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  case CUDA_ERROR_JIT_COMPILATION_DISABLED:
  case CUDA_ERROR_TOO_MANY_PEERS:
  case CUDA_ERROR_SYSTEM_NOT_READY:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return TB_UNAVAILABLE;
  case CUDA_ERROR_OPERATING_SYSTEM:
    return TB_INTERNAL;
  default:
    return TB_UNKNOWN;
  }
}

tb_status fail_cuda(const tb_host *host, const Api &api, tb_status status, CUresult result, const char *function,
                    const char *remedy) {
  const char *name = nullptr, *text = nullptr;
  if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
  if (api.cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "libcuda has no text for it";
  return fail_native(host, status, result, "%s failed: %s (%d): %s%s%s", function, name, result, text,
                     remedy ? ". " : "", remedy ? remedy : "");
}

} // namespace tb::drivers::cuda

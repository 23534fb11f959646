#include "opencl/failure.h"

#include <cstdarg>
#include <cstdio>

namespace tb::opencl {

tb_status fail(const tb_host *host, tb_status status, int64_t code, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  host->set_error(status, code, text);
  return status;
}

tb_status fail_call(const tb_host *host, cl_int code, const char *call) {
  return fail(host, status_of(code), code, "%s failed: %s (%d)", call, name_of(code), code);
}

tb_status status_of(cl_int code) {
  switch (code) {
  case CL_SUCCESS:
    return TB_OK;
  case CL_DEVICE_NOT_AVAILABLE:
    return TB_DEVICE_LOST;
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
  case CL_OUT_OF_RESOURCES:
  case CL_OUT_OF_HOST_MEMORY:
    return TB_OUT_OF_MEMORY;
  case CL_INVALID_VALUE:
  case CL_INVALID_BINARY:
  case CL_INVALID_BUILD_OPTIONS:
  case CL_BUILD_PROGRAM_FAILURE:
  case CL_INVALID_ARG_INDEX:
  case CL_INVALID_ARG_VALUE:
  case CL_INVALID_ARG_SIZE:
  case CL_INVALID_WORK_GROUP_SIZE:
    return TB_INVALID_ARGUMENT;
  case CL_INVALID_KERNEL_NAME:
    return TB_NOT_FOUND;
  default:
    return TB_INTERNAL;
  }
}

const char *name_of(cl_int code) {
#define NAME(name)                                                                                                     \
  case name:                                                                                                           \
    return #name;
  switch (code) {
    NAME(CL_SUCCESS)
    NAME(CL_DEVICE_NOT_FOUND)
    NAME(CL_DEVICE_NOT_AVAILABLE)
    NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    NAME(CL_OUT_OF_RESOURCES)
    NAME(CL_OUT_OF_HOST_MEMORY)
    NAME(CL_BUILD_PROGRAM_FAILURE)
    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    NAME(CL_INVALID_VALUE)
    NAME(CL_INVALID_COMMAND_QUEUE)
    NAME(CL_INVALID_BINARY)
    NAME(CL_INVALID_BUILD_OPTIONS)
    NAME(CL_INVALID_PROGRAM_EXECUTABLE)
    NAME(CL_INVALID_KERNEL_NAME)
    NAME(CL_INVALID_ARG_INDEX)
    NAME(CL_INVALID_ARG_VALUE)
    NAME(CL_INVALID_ARG_SIZE)
    NAME(CL_INVALID_KERNEL_ARGS)
    NAME(CL_INVALID_WORK_GROUP_SIZE)
    NAME(CL_INVALID_OPERATION)
    NAME(CL_PLATFORM_NOT_FOUND_KHR)
  default:
    return "an error";
  }
#undef NAME
}

} // namespace tb::opencl

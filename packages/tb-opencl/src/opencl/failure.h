// Failures of OpenCL's functions as statuses and texts of the device ABI.
#pragma once

#include <exception>
#include <new>

#include "opencl/api.h"
#include "tb/driver.h"

namespace tb::opencl {

// Sets the text of this thread's failure and returns `status`. `code` is OpenCL's number, or 0.
[[gnu::format(printf, 4, 5)]] tb_status fail(const tb_host *host, tb_status status, int64_t code, const char *format,
                                             ...);

// Fails with OpenCL's error, its name and what was called: "clEnqueueNDRangeKernel failed: CL_OUT_OF_RESOURCES (-5)".
tb_status fail_call(const tb_host *host, cl_int code, const char *call);

// The status that stands for an OpenCL error.
tb_status status_of(cl_int code);

// "CL_OUT_OF_RESOURCES", or "an error" if the number is not known.
const char *name_of(cl_int code);

// Runs the body of a function of the table. Exceptions become statuses here, since none may cross the table.
template <class Body> tb_status guarded(const tb_host *host, Body &&body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(host, TB_OUT_OF_MEMORY, 0, "out of host memory for the driver's own records");
  } catch (const std::exception &error) {
    return fail(host, TB_INTERNAL, 0, "%s", error.what());
  }
}

} // namespace tb::opencl

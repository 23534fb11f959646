#include "streams/stream.h"

#include "opencl/failure.h"

namespace tb::opencl {

tb_status settle(const tb_host *host, const Functions &cl, const Point &point, bool wait) {
  if (point.event) {
    const cl_int waited = wait ? cl.clWaitForEvents(1, point.event.address()) : CL_SUCCESS;
    if (waited != CL_SUCCESS && waited != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
      return fail_call(host, waited, "clWaitForEvents");
    const cl_int state = point.event.state();
    if (state < 0) return fail_call(host, state, "work of the stream");
    if (state != CL_COMPLETE) return TB_NOT_READY;
  }
  return point.covers.report(host);
}

bool done_without_failure(const Point &point) {
  return point.event.state() == CL_COMPLETE && point.covers.peek() == TB_OK;
}

} // namespace tb::opencl

void tb_stream::inherit(const tb::opencl::Point &point) {
  constexpr size_t few = 16; // looking costs a call of OpenCL for each
  if (inherited.size() >= few) std::erase_if(inherited, tb::opencl::done_without_failure);
  inherited.push_back(point);
}

// timeline.cpp -- the functions behind tb_stream.trace().
#include "python/timeline.h"

#include <string>

#include "python_errors.h"
#include "trace.h"

namespace nb = nanobind;

namespace tb::stream {
namespace {

nb::bytes stopped_trace() {
  std::string text;
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = stop_trace(&text);
  }
  check(status, "trace", -1);
  return nb::bytes(text.data(), text.size());
}

} // namespace

void bind_timeline(nb::module_ &m) {
  m.def("_start_trace", [] {
    require_driver();
    check(start_trace(), "trace", -1);
  });
  m.def("_stop_trace", &stopped_trace);
}

} // namespace tb::stream

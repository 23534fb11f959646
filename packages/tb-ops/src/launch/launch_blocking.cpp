// A driver table whose closure_commit waits.
#include "launch/launch_blocking.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <string_view>

#include "runtime/capture.h"
#include "runtime/late_warning_report.h"
#include "runtime/runtime.h"

namespace tb::ops {
namespace {

const tb_driver_api *below = nullptr;

tb_status commit_and_wait(tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) {
  const tb_status status = below->closure_commit(self, stream, storage, closure);
  if (status != TB_OK || in_capture(stream)) return status;
  const tb_status waited = below->stream_synchronize(self, stream);
  if (waited == TB_OK) report_warnings_or_throw();
  return waited;
}

} // namespace

bool launch_blocking() {
  static const bool wanted = [] {
    const char *value = std::getenv("TB_LAUNCH_BLOCKING");
    const std::string_view given = value ? value : "0";
    TORCH_CHECK(given == "0" || given == "1", "TB_LAUNCH_BLOCKING=", given, " is neither 0 nor 1");
    return given == "1";
  }();
  return wanted;
}

void block_launches() {
  if (below || !runtime.closures || !launch_blocking()) return;
  static tb_driver_api table = *runtime.driver;
  below = runtime.driver;
  table.closure_commit = &commit_and_wait;
  runtime.driver = &table;
}

} // namespace tb::ops

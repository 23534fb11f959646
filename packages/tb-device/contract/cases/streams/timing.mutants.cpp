// Drivers whose times break a rule.
#include "contract/mutant.h"

namespace tb::contract::timing_mutants {
namespace {

TB_MUTANT(elapsed_zero, "cpu", "event_elapsed_ns.1", "TIM-01", "the time between two events is always 0") {
  api.event_elapsed_ns = [](tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
    const tb_status status = real().event_elapsed_ns(self, start, end, out);
    if (status == TB_OK) *out = 0;
    return status;
  };
}

TB_MUTANT(elapsed_reversed, "cpu", "event_elapsed_ns.1", "TIM-05", "the time is from the end to the start") {
  api.event_elapsed_ns = [](tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
    const tb_status status = real().event_elapsed_ns(self, start, end, out);
    if (status == TB_OK) *out = -*out;
    return status;
  };
}

TB_MUTANT(elapsed_ready_early, "cpu", "event_elapsed_ns.2", "TIM-02", "the time is given before the work is done") {
  api.event_elapsed_ns = [](tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
    const tb_status status = real().event_elapsed_ns(self, start, end, out);
    if (status != TB_NOT_READY) return status;
    *out = 1;
    return static_cast<tb_status>(TB_OK);
  };
}

TB_MUTANT(elapsed_without_flag, "cpu", "event_elapsed_ns.3", "TIM-03", "events without the flag have a time of 0") {
  api.event_elapsed_ns = [](tb_driver *self, tb_event *start, tb_event *end, int64_t *out) {
    const tb_status status = real().event_elapsed_ns(self, start, end, out);
    if (status != TB_FAILED_PRECONDITION) return status;
    *out = 0;
    return static_cast<tb_status>(TB_OK);
  };
}

} // namespace
} // namespace tb::contract::timing_mutants

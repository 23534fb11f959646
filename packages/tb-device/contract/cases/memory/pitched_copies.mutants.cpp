// Drivers whose pitched copies break a rule.
#include "contract/mutant.h"

namespace tb::contract::pitched_copies_mutants {
namespace {

// The given status as success.
tb_status forgiven(tb_status status, tb_status which) {
  return status == which ? static_cast<tb_status>(TB_OK) : status;
}

TB_MUTANT(copy_2d_writes_padding, "cpu", "mem_copy_2d.1", "C2D-01", "whole pitches are copied, not widths") {
  api.mem_copy_2d = [](tb_driver *self, int32_t device, tb_stream *stream, const tb_copy_2d *copy) {
    tb_copy_2d wide = *copy;
    if (wide.height > 1 && wide.width > 0 && wide.dst_pitch >= wide.width && wide.src_pitch >= wide.width) {
      wide.width = wide.dst_pitch < wide.src_pitch ? wide.dst_pitch : wide.src_pitch;
    }
    return real().mem_copy_2d(self, device, stream, &wide);
  };
}

TB_MUTANT(copy_2d_short_pitch, "cpu", "mem_copy_2d.2", "C2D-02", "a pitch below the width is taken") {
  api.mem_copy_2d = [](tb_driver *self, int32_t device, tb_stream *stream, const tb_copy_2d *copy) {
    return forgiven(real().mem_copy_2d(self, device, stream, copy), TB_INVALID_ARGUMENT);
  };
}

} // namespace
} // namespace tb::contract::pitched_copies_mutants

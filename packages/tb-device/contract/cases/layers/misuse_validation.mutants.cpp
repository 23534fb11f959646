// Drivers that do wrong what the cases about misuse find right.
#include "contract/mutant.h"

namespace tb::contract::misuse_validation_mutants {

TB_MUTANT(free_refuses_null, "cpu", "mem_free.2", "MIS-05", "mem_free(NULL) is an error") {
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    return ptr ? real().mem_free(self, device, ptr) : TB_INVALID_ARGUMENT;
  };
}

TB_MUTANT(set_loses_the_last_byte, "cpu", "mem_set.1", "MIS-09", "mem_set of bytes writes one too few") {
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                   uint32_t pattern_size, uint64_t count) -> tb_status {
    return real().mem_set(self, device, stream, dst, pattern, pattern_size,
                          pattern_size == 1 && count > 90 ? count - 1 : count);
  };
}

TB_MUTANT(default_stream_differs, "cpu", "stream_default.1", "MIS-10", "the default stream is another each time") {
  api.stream_default = [](tb_driver *self, int32_t device, tb_stream **out) -> tb_status {
    static tb_stream *streams[2] = {};
    static bool second = false;
    if (device != 0) return real().stream_default(self, device, out);
    second = !second;
    if (!second) return real().stream_default(self, device, out);
    if (!streams[1])
      if (const tb_status status = real().stream_create(self, device, 0, 0, &streams[1])) return status;
    *out = streams[1];
    return TB_OK;
  };
}

} // namespace tb::contract::misuse_validation_mutants

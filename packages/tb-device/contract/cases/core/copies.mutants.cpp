// Drivers whose copies and sets break a rule.
#include <algorithm>
#include <cstdint>

#include "contract/mutant.h"

namespace tb::contract::copies_mutants {

TB_MUTANT(cpy_short, "cpu", "mem_copy.3", "CPY-01", "loses the last byte of copies of odd size above 4096") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    return real().mem_copy(self, device, stream, dst, src, size > 4096 && size % 2 ? size - 1 : size, kind);
  };
}

TB_MUTANT(cpy_in_words, "cpu", "mem_copy.4", "CPY-02", "copies whole words of 4 bytes to unaligned addresses") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    const bool unaligned = reinterpret_cast<uintptr_t>(dst) % 4 != 0 && kind == TB_COPY_DEVICE_TO_DEVICE;
    return real().mem_copy(self, device, stream, dst, src, unaligned ? size + 3 : size, kind);
  };
}

TB_MUTANT(cpy_device_drops_tail, "cpu", "mem_copy.3", "CPY-03", "copies within a device 64 KiB at most") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    if (kind == TB_COPY_DEVICE_TO_DEVICE) size = std::min<uint64_t>(size, 1 << 16);
    return real().mem_copy(self, device, stream, dst, src, size, kind);
  };
}

TB_MUTANT(cpy_overlap_forward, "cpu", "mem_copy.5", "CPY-04", "copies overlapping ranges in pieces, forward") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    if (kind != TB_COPY_DEVICE_TO_DEVICE) return real().mem_copy(self, device, stream, dst, src, size, kind);
    for (uint64_t done = 0; done < size; done += 1 << 14) {
      const tb_status status =
          real().mem_copy(self, device, stream, static_cast<char *>(dst) + done, static_cast<const char *>(src) + done,
                          std::min<uint64_t>(size - done, 1 << 14), kind);
      if (status != TB_OK) return status;
    }
    return TB_OK;
  };
}

TB_MUTANT(cpy_set_bytes, "cpu", "mem_set.1", "CPY-05", "repeats the lowest byte of a wider pattern") {
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) -> tb_status {
    if (size != 2 && size != 4) return real().mem_set(self, device, stream, dst, pattern, size, count);
    return real().mem_set(self, device, stream, dst, pattern, 1, count * size);
  };
}

TB_MUTANT(cpy_set_beyond, "cpu", "mem_set.3", "CPY-06", "rounds an odd number of patterns up") {
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) -> tb_status {
    return real().mem_set(self, device, stream, dst, pattern, size, count + count % 2);
  };
}

TB_MUTANT(cpy_any_width, "cpu", "mem_set.2", "CPY-07", "takes a pattern of 8 bytes for one of 4") {
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) -> tb_status {
    return real().mem_set(self, device, stream, dst, pattern, size == 8 ? 4 : size, count);
  };
}

TB_MUTANT(cpy_any_kind, "cpu", "mem_copy.6", "CPY-08", "guesses the kind of a copy where it does not know it") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    return real().mem_copy(self, device, stream, dst, src, size, kind == 0 ? TB_COPY_HOST_TO_DEVICE : kind);
  };
}

TB_MUTANT(cpy_zero_checks_pointers, "cpu", "mem_copy.3", "CPY-09", "refuses NULL also where nothing is copied") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    return real().mem_copy(self, device, stream, dst, src, dst ? size : 1, kind);
  };
}

TB_MUTANT(cpy_reads_late, "cpu", "mem_copy.2", "CPY-12",
          "reads the source only at the stream's next synchronise but one") {
  struct Late {
    tb_driver *self;
    int32_t device;
    tb_stream *stream;
    void *dst;
    const void *src;
    uint64_t size;
    int waits;
  };
  static Late late{};
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    if (kind != TB_COPY_HOST_TO_DEVICE) {
      if (late.size && --late.waits <= 0) {
        real().mem_copy(late.self, late.device, late.stream, late.dst, late.src, late.size, TB_COPY_HOST_TO_DEVICE);
        late = {};
      }
      return real().mem_copy(self, device, stream, dst, src, size, kind);
    }
    late = {self, device, stream, dst, src, size, 1};
    return TB_OK;
  };
}

TB_MUTANT(cpy_blocks, "cpu", "T5", "CPY-13", "waits for the stream before it queues a copy") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    const tb_status status = real().stream_synchronize(self, stream);
    return status != TB_OK ? status : real().mem_copy(self, device, stream, dst, src, size, kind);
  };
}

TB_MUTANT(cpy_sets_aligned_only, "cpu", "mem_set.4", "CPY-14", "sets wider patterns from the aligned address below") {
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) -> tb_status {
    const auto address = reinterpret_cast<uintptr_t>(dst);
    if (size == 2 || size == 4) dst = reinterpret_cast<void *>(address / size * size);
    return real().mem_set(self, device, stream, dst, pattern, size, count);
  };
}

} // namespace tb::contract::copies_mutants

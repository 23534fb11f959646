// Drivers whose device memory breaks a rule.
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "contract/mutant.h"

namespace tb::contract::memory_mutants {
namespace {

using Alloc = tb_status(tb_driver *, int32_t, uint64_t, uint64_t, void **);

uint64_t memory_of(tb_driver *self, int32_t device) {
  tb_device_info info{};
  info.struct_size = sizeof info;
  return real().device_get_info(self, device, &info) == TB_OK ? info.total_memory : 0;
}

} // namespace

TB_MUTANT(mem_misaligned, "cpu", "mem_alloc.1", "MEM-01", "pointers are 8 bytes off") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size + 8, flags, out);
    if (status == TB_OK) *out = static_cast<char *>(*out) + 8;
    return status;
  };
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    return real().mem_free(self, device, ptr ? static_cast<char *>(ptr) - 8 : nullptr);
  };
}

TB_MUTANT(mem_zero_is_null, "cpu", "mem_alloc.2", "MEM-02", "gives NULL for size 0") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    if (size > 0) return real().mem_alloc(self, device, size, flags, out);
    *out = nullptr;
    return TB_OK;
  };
}

TB_MUTANT(mem_overlaps, "cpu", "mem_alloc.4", "MEM-03", "gives every hundredth block a second time") {
  static void *last = nullptr;
  static std::map<void *, int> shared;
  static int count = 0;
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    if (last && ++count % 100 == 0) {
      ++shared[last];
      *out = last;
      return TB_OK;
    }
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    if (status == TB_OK) last = *out;
    return status;
  };
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    if (shared[ptr]-- > 0) return TB_OK;
    return real().mem_free(self, device, ptr);
  };
}

TB_MUTANT(mem_out_on_failure, "cpu", "E1", "MEM-04", "clears the out-parameter when memory is short") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    if (status == TB_OUT_OF_MEMORY) *out = nullptr;
    return status;
  };
}

TB_MUTANT(mem_dies_of_shortage, "cpu", "mem_alloc.3", "MEM-05", "allocates nothing any more after fifty shortages") {
  static int shortages = 0;
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    if (shortages >= 50) size = std::numeric_limits<uint64_t>::max() / 2;
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    shortages += status == TB_OUT_OF_MEMORY;
    return status;
  };
}

TB_MUTANT(mem_size_overflows, "cpu", "mem_alloc.3", "MEM-06", "rounds a size up past 2^64, to a small block") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    return real().mem_alloc(self, device, (size + 63) & ~uint64_t(63), flags, out);
  };
}

TB_MUTANT(mem_free_keeps, "cpu", "mem_free.1", "MEM-13", "never gives blocks of a MiB and more back") {
  static std::mutex mutex;
  static std::map<void *, uint64_t> sizes;
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    std::lock_guard lock(mutex);
    if (status == TB_OK) sizes[*out] = size;
    return status;
  };
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    std::lock_guard lock(mutex);
    return sizes[ptr] >= 1 << 20 ? TB_OK : real().mem_free(self, device, ptr);
  };
}

TB_MUTANT(mem_info_constant, "cpu", "device_memory_info.2", "MEM-07",
          "tells the same free memory whatever is allocated") {
  api.device_memory_info = [](tb_driver *self, int32_t device, uint64_t *free, uint64_t *total) -> tb_status {
    const tb_status status = real().device_memory_info(self, device, free, total);
    if (status == TB_OK) *free = *total / 2;
    return status;
  };
}

TB_MUTANT(mem_free_null_fails, "cpu", "mem_free.2", "MEM-08", "takes NULL for a pointer that it does not know") {
  api.mem_free = [](tb_driver *self, int32_t device, void *ptr) -> tb_status {
    return real().mem_free(self, device, ptr ? ptr : reinterpret_cast<void *>(uintptr_t(64)));
  };
}

TB_MUTANT(mem_base_only, "cpu", "mem_alloc.5", "MEM-11", "copies to the block's base when given a pointer into it") {
  api.mem_copy = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                    int32_t kind) -> tb_status {
    tb_pointer_info info{};
    info.struct_size = sizeof info;
    if (kind == TB_COPY_HOST_TO_DEVICE && real().mem_get_info(self, dst, &info) == TB_OK) dst = info.base;
    return real().mem_copy(self, device, stream, dst, src, size, kind);
  };
}

TB_MUTANT(mem_any_flags, "cpu", "E7", "MEM-12", "ignores flags that it does not know") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t, void **out) -> tb_status {
    return real().mem_alloc(self, device, size, 0, out);
  };
}

// A pool that outlives the process that filled it: what a device without scrubbing is.
TB_MUTANT(mem_shows_others, "cpu", "mem_alloc.6", "MEM-17", "gives out memory as the process before left it") {
  static const std::vector<uint8_t> left = [] {
    constexpr uint8_t secret[16] = {0x9E, 0x37, 0x79, 0xB9, 0x7F, 0x4A, 0x7C, 0x15,
                                    0xF3, 0x9C, 0xC0, 0x60, 0x5C, 0xED, 0xC8, 0x34};
    return std::vector<uint8_t>(std::begin(secret), std::end(secret));
  }();
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    const tb_status status = real().mem_alloc(self, device, size, flags, out);
    if (status == TB_OK && size > left.size() && size <= memory_of(self, device))
      memcpy(static_cast<char *>(*out) + size / 2, left.data(), left.size()); // host memory on the CPU driver
    return status;
  };
}

} // namespace tb::contract::memory_mutants

// Drivers that report wrong facts about their devices.
#include <atomic>
#include <cstring>

#include "contract/mutant.h"

namespace tb::contract::devices_mutants {
namespace {

std::atomic<int64_t> calls{0};
thread_local bool first_here = true;

} // namespace

TB_MUTANT(dev_count_per_thread, "cpu", "device_count.2", "DEV-01", "counts one device on a thread's first call") {
  api.device_count = [](tb_driver *self, int32_t *out) -> tb_status {
    const tb_status status = real().device_count(self, out);
    if (status == TB_OK && first_here) *out = 1;
    first_here = false;
    return status;
  };
}

TB_MUTANT(dev_no_alignment, "cpu", "device_get_info.2", "DEV-03", "says that memory is aligned to 48 bytes") {
  api.device_get_info = [](tb_driver *self, int32_t device, tb_device_info *out) -> tb_status {
    const tb_status status = real().device_get_info(self, device, out);
    if (status == TB_OK) out->alignment = 48;
    return status;
  };
}

TB_MUTANT(dev_one_uuid, "cpu", "device_get_info.3", "DEV-04", "gives all devices the uuid of the first") {
  api.device_get_info = [](tb_driver *self, int32_t device, tb_device_info *out) -> tb_status {
    tb_device_info first{};
    first.struct_size = sizeof first;
    real().device_get_info(self, 0, &first);
    const tb_status status = real().device_get_info(self, device, out);
    if (status == TB_OK) memcpy(out->uuid, first.uuid, sizeof first.uuid);
    return status;
  };
}

TB_MUTANT(dev_negative_is_first, "cpu", "E7", "DEV-05", "takes a negative device for the first one in mem_alloc") {
  api.mem_alloc = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) -> tb_status {
    return real().mem_alloc(self, device < 0 ? 0 : device, size, flags, out);
  };
}

TB_MUTANT(dev_free_above_total, "cpu", "device_memory_info.1", "DEV-06",
          "tells a little more free memory than there is") {
  api.device_memory_info = [](tb_driver *self, int32_t device, uint64_t *free, uint64_t *total) -> tb_status {
    const tb_status status = real().device_memory_info(self, device, free, total);
    if (status == TB_OK) *free = *total + 1;
    return status;
  };
}

TB_MUTANT(dev_knows_every_key, "cpu", "device_query.2", "DEV-07", "answers 0 for a key that it does not know") {
  api.device_query = [](tb_driver *self, int32_t device, const char *key, int64_t *out) -> tb_status {
    const tb_status status = real().device_query(self, device, key, out);
    if (status != TB_NOT_FOUND) return status;
    *out = 0;
    return TB_OK;
  };
}

TB_MUTANT(dev_hidden_current, "cpu", "T4", "DEV-08", "sets the memory of the device that was activated last") {
  static std::atomic<int32_t> current{0};
  api.device_activate = [](tb_driver *self, int32_t device) -> tb_status {
    current = device;
    return real().device_activate(self, device);
  };
  // Work for another device than the current one is lost, as launches under a wrong context are.
  api.mem_set = [](tb_driver *self, int32_t device, tb_stream *stream, void *dst, uint32_t pattern, uint32_t size,
                   uint64_t count) -> tb_status {
    return real().mem_set(self, device, stream, dst, pattern, size, device == current ? count : 0);
  };
}

TB_MUTANT(dev_close_with_live_objects, "cpu", "close.2", "DEV-10", "agrees to close while memory is alive") {
  api.close = [](tb_driver *self) -> tb_status {
    const tb_status status = real().close(self);
    return status == TB_FAILED_PRECONDITION && calls++ == 0 ? TB_OK : status;
  };
}

} // namespace tb::contract::devices_mutants

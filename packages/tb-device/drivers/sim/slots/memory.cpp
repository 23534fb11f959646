// The table's functions about memory: blocks, pinned memory, pointers, stream-ordered memory (CORE,
// PIN, PTR, SOA).
#include "drivers/sim/driver.h"

namespace tb::drivers::sim {

namespace {

// How long an allocation that does not fit waits for work that frees memory in stream order and has not run yet.
constexpr std::chrono::milliseconds reclaim{200};

tb_status allocate(Driver &driver, const Device &device, uint64_t size, void **out) {
  Blocks &blocks = *driver.memory.devices[static_cast<size_t>(device.number)];
  if (blocks.allocate(size, out)) return TB_OK;
  if (size <= blocks.capacity() && !Scheduler::inside_any()) {
    driver.scheduler.drain(reclaim);
    if (blocks.allocate(size, out)) return TB_OK;
  }
  return fail(driver.host, TB_OUT_OF_MEMORY,
              "%s on device %d do not fit: its capacity is %s and %s of it are in use. Free memory, or raise the "
              "driver's option \"capacity\" (TB_SIM_CAPACITY)",
              ByteText(size).text, device.number, ByteText(blocks.capacity()).text, ByteText(blocks.used()).text);
}

// The call's part of freeing device memory. `lost`: there is no more to do.
tb_status begin_free(Driver &driver, int32_t number, void *pointer, bool refund, bool *lost) {
  switch (driver.memory.devices[static_cast<size_t>(number)]->begin_free(pointer, refund)) {
  case Blocks::Freed::ok:
    return TB_OK;
  case Blocks::Freed::gone:
    *lost = true;
    return TB_OK;
  case Blocks::Freed::twice:
    return fail(driver.host, TB_INVALID_ARGUMENT, "the block at %p on device %d was freed already", pointer, number);
  case Blocks::Freed::inside:
    return fail(driver.host, TB_INVALID_ARGUMENT, "%p is inside a block of device %d; free takes the start of one",
                pointer, number);
  case Blocks::Freed::unknown:
    break;
  }
  const int32_t owner = driver.memory.device_of(reinterpret_cast<uintptr_t>(pointer));
  if (owner >= 0 && owner != number)
    return fail(driver.host, TB_INVALID_ARGUMENT, "%p belongs to device %d, not to device %d", pointer, owner, number);
  return fail(driver.host, TB_INVALID_ARGUMENT, "%p is no block of device %d, or was freed already", pointer, number);
}

} // namespace

namespace slots {

tb_status mem_alloc(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const Device *device = driver.usable(number, &status);
    if (!device) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, 0))) return status;
    return allocate(driver, *device, size, out);
  });
}

tb_status mem_free(tb_driver *self, int32_t number, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    bool lost = false;
    if (!driver.device(number, &status)) return status;
    if (!pointer) return TB_OK;
    if ((status = begin_free(driver, number, pointer, true, &lost))) return status;
    if (!lost) driver.bury_later(number, pointer);
    return TB_OK;
  });
}

tb_status mem_alloc_async(tb_driver *self, tb_stream *handle, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, 0))) return status;
    void *pointer = nullptr;
    if ((status = allocate(driver, stream->queue->device, size, &pointer))) return status;
    if ((status = driver.enqueue<AllocateOperation>(stream, pointer))) {
      driver.memory.devices[static_cast<size_t>(stream->queue->device.number)]->begin_free(pointer, true);
      driver.bury_later(stream->queue->device.number, pointer);
      return status;
    }
    *out = pointer;
    return TB_OK;
  });
}

tb_status mem_free_async(tb_driver *self, tb_stream *handle, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.stream(handle, &status);
    if (!stream || !pointer) return status;
    const int32_t number = stream->queue->device.number;
    bool lost = false;
    if ((status = begin_free(driver, number, pointer, false, &lost)) || lost) return status;
    if (stream->queue->lost()) {
      driver.bury_later(number, pointer);
      return TB_OK;
    }
    return driver.enqueue<FreeOperation>(stream, pointer);
  });
}

tb_status mem_alloc_host(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.refuse_flags(flags, 0))) return status;
    return driver.memory.pinned.allocate(number, size, out);
  });
}

tb_status mem_free_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!pointer) return TB_OK;
    if (const tb_status status = driver.memory.pinned.begin_free(pointer)) return status;
    driver.scheduler.after_plan([&driver, pointer] { driver.memory.pinned.bury(pointer); });
    return TB_OK;
  });
}

tb_status mem_register_host(tb_driver *self, int32_t number, void *pointer, uint64_t size, uint64_t flags) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(pointer, "ptr"))) return status;
    if ((status = driver.refuse_flags(flags, 0))) return status;
    return driver.memory.pinned.register_range(number, pointer, size);
  });
}

tb_status mem_unregister_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    return driver.memory.pinned.unregister_range(pointer);
  });
}

tb_status mem_get_info(tb_driver *self, const void *pointer, tb_pointer_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    tb_pointer_info info = {};
    if (!driver.memory.find(pointer, &info))
      return fail(driver.host, TB_NOT_FOUND, "%p is not memory of this driver", pointer);
    return driver.give(info, out);
  });
}

} // namespace slots
} // namespace tb::drivers::sim

// The table's functions about memory: blocks, copies, fills, virtual memory (CORE, PIN, PTR, SOA,
// COPY2D, PEER's copy, VMM).
#include "drivers/cpu/driver.h"
#include "drivers/cpu/stream/copy.h"

namespace tb::drivers::cpu {

namespace {

// The stream for work of a device, or NULL with a text.
Stream *stream_of(Driver &driver, int32_t number, tb_stream *handle, tb_status *status) {
  Device *device = driver.device(number);
  if (!device) return *status = TB_OUT_OF_RANGE, nullptr;
  if ((*status = driver.require(handle, "stream"))) return nullptr;
  Stream *stream = Stream::of(handle);
  if (&stream->device() == device) return stream;
  *status = fail(driver.host, TB_INVALID_ARGUMENT, "the stream belongs to device %d, not to device %d",
                 stream->device().number(), number);
  return nullptr;
}

tb_status check_kind(Driver &driver, int32_t kind) {
  if (kind >= TB_COPY_HOST_TO_DEVICE && kind <= TB_COPY_DEVICE_TO_DEVICE) return TB_OK;
  return fail(driver.host, TB_INVALID_ARGUMENT,
              "copy kind %d is none of 1 (host to device), 2 (device to host), 3 (device to device)", kind);
}

tb_status refuse_capture(Driver &driver, Stream &stream, const char *function) {
  if (!stream.capturing()) return TB_OK;
  return fail(
      driver.host, TB_UNSUPPORTED,
      "%s on a stream that captures: graphs of the CPU driver hold no memory. Allocate before capture_begin and "
      "free after capture_end",
      function);
}

struct FreeWork {
  static constexpr char name[] = "mem_free_async";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER | TB_CLOSURE_AFTER_FAILURE;
  Memory *memory;
  void *pointer;
  tb_status run(const tb_closure_context *) {
    memory->free_retired(pointer);
    return TB_OK;
  }
};

} // namespace

namespace slots {

tb_status mem_alloc(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    return driver.memory.allocate(*device, size, TB_POINTER_DEVICE, out);
  });
}

tb_status mem_free(tb_driver *self, int32_t number, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    return pointer ? driver.memory.free(device, pointer, TB_POINTER_DEVICE) : TB_OK;
  });
}

tb_status mem_alloc_host(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    return driver.memory.allocate(*device, size, TB_POINTER_HOST_PINNED, out);
  });
}

tb_status mem_free_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    return pointer ? driver.memory.free(nullptr, pointer, TB_POINTER_HOST_PINNED) : TB_OK;
  });
}

tb_status mem_register_host(tb_driver *self, int32_t number, void *pointer, uint64_t size, uint64_t flags) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    return driver.memory.register_host(*device, pointer, size);
  });
}

tb_status mem_unregister_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    return driver.memory.unregister_host(pointer);
  });
}

tb_status mem_get_info(tb_driver *self, const void *pointer, tb_pointer_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    tb_pointer_info info = {};
    if (!driver.memory.find(pointer, &info) && !driver.virtual_memory.find(pointer, &info))
      return fail(driver.host, TB_NOT_FOUND, "%p is not memory of this driver", pointer);
    return driver.give(info, out);
  });
}

tb_status mem_alloc_async(tb_driver *self, tb_stream *handle, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    if (const tb_status status = refuse_capture(driver, *Stream::of(handle), "mem_alloc_async")) return status;
    // The memory is there at once, which is early enough for work enqueued from now on.
    return driver.memory.allocate(Stream::of(handle)->device(), size, TB_POINTER_DEVICE, out);
  });
}

tb_status mem_free_async(tb_driver *self, tb_stream *handle, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (!pointer) return TB_OK;
    Stream &stream = *Stream::of(handle);
    if (const tb_status status = refuse_capture(driver, stream, "mem_free_async")) return status;
    if (const tb_status status = driver.memory.retire(stream.device(), pointer)) return status;
    const tb_status status = enqueue(stream, FreeWork{&driver.memory, pointer});
    if (status) driver.memory.restore(pointer);
    return status;
  });
}

tb_status mem_copy(tb_driver *self, int32_t number, tb_stream *handle, void *dst, const void *src, uint64_t size,
                   int32_t kind) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = stream_of(driver, number, handle, &status);
    if (!stream) return status;
    if ((status = check_kind(driver, kind))) return status;
    if (size == 0) return TB_OK;
    if ((status = driver.require(dst, "dst"))) return status;
    if ((status = driver.require(src, "src"))) return status;
    return enqueue(*stream, CopyWork{dst, src, size});
  });
}

tb_status mem_set(tb_driver *self, int32_t number, tb_stream *handle, void *dst, uint32_t pattern,
                  uint32_t pattern_size, uint64_t count) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = stream_of(driver, number, handle, &status);
    if (!stream) return status;
    if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4)
      return fail(driver.host, TB_INVALID_ARGUMENT, "pattern_size %u is none of 1, 2, 4", pattern_size);
    if (count == 0) return TB_OK;
    if (count > UINT64_MAX / pattern_size)
      return fail(driver.host, TB_INVALID_ARGUMENT, "%llu patterns of %u bytes are more than an address can hold",
                  static_cast<unsigned long long>(count), pattern_size);
    if ((status = driver.require(dst, "dst"))) return status;
    return enqueue(*stream, FillWork{dst, pattern, pattern_size, count});
  });
}

tb_status mem_copy_2d(tb_driver *self, int32_t number, tb_stream *handle, const tb_copy_2d *copy) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Stream *stream = stream_of(driver, number, handle, &status);
    if (!stream) return status;
    if ((status = driver.require(copy, "copy"))) return status;
    if (copy->struct_size < sizeof *copy)
      return fail(driver.host, TB_INVALID_ARGUMENT, "tb_copy_2d.struct_size is %u, but its fields take %zu",
                  copy->struct_size, sizeof *copy);
    if ((status = check_kind(driver, copy->kind))) return status;
    if (copy->width == 0 || copy->height == 0) return TB_OK;
    if ((status = driver.require(copy->dst, "copy->dst"))) return status;
    if ((status = driver.require(copy->src, "copy->src"))) return status;
    if (copy->height > 1 && (copy->dst_pitch < copy->width || copy->src_pitch < copy->width))
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "a row of %llu bytes is wider than a pitch (destination %llu, source %llu)",
                  static_cast<unsigned long long>(copy->width), static_cast<unsigned long long>(copy->dst_pitch),
                  static_cast<unsigned long long>(copy->src_pitch));
    return enqueue(*stream, Copy2dWork{*copy});
  });
}

tb_status peer_copy(tb_driver *self, tb_stream *handle, void *dst, int32_t dst_device, const void *src,
                    int32_t src_device, uint64_t size) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(dst_device) || !driver.device(src_device)) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(handle, "stream")) return status;
    if (size == 0) return TB_OK;
    if (const tb_status status = driver.require(dst, "dst")) return status;
    if (const tb_status status = driver.require(src, "src")) return status;
    return enqueue(*Stream::of(handle), PeerCopyWork{{dst, src, size}});
  });
}

tb_status vmm_granularity(tb_driver *self, int32_t number, uint64_t *out_minimum, uint64_t *out_recommended) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!driver.device(number)) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out_minimum, "out_minimum")) return status;
    if (const tb_status status = driver.require(out_recommended, "out_recommended")) return status;
    *out_minimum = *out_recommended = VirtualMemory::granularity;
    return TB_OK;
  });
}

tb_status vmm_reserve(tb_driver *self, uint64_t size, uint64_t alignment, void *hint, void **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    return driver.virtual_memory.reserve(size, alignment, hint, out);
  });
}

tb_status vmm_release(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) { return driver.virtual_memory.release(address, size); });
}

tb_status vmm_create(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, tb_physical **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.refuse_flags(flags, 0)) return status;
    return driver.virtual_memory.create(*device, size, out);
  });
}

tb_status vmm_destroy(tb_driver *self, tb_physical *physical) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(physical, "physical")) return status;
    return driver.virtual_memory.destroy(physical);
  });
}

tb_status vmm_map(tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t offset) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(physical, "physical")) return status;
    return driver.virtual_memory.map(address, size, physical, offset);
  });
}

tb_status vmm_unmap(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) { return driver.virtual_memory.unmap(address, size); });
}

tb_status vmm_set_access(tb_driver *self, void *address, uint64_t size, const int32_t *devices, uint32_t device_count,
                         uint32_t access) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (device_count == 0) return fail(driver.host, TB_INVALID_ARGUMENT, "device_count is 0: name a device");
    if (const tb_status status = driver.require(devices, "devices")) return status;
    for (uint32_t place = 0; place < device_count; ++place)
      if (!driver.device(devices[place])) return TB_OUT_OF_RANGE;
    return driver.virtual_memory.set_access(address, size, devices, device_count, access);
  });
}

} // namespace slots
} // namespace tb::drivers::cpu

// The table's functions about memory: blocks, host memory, pointers, stream-ordered memory (CORE,
// PIN, PTR, SOA).
#include "drivers/cuda/driver.h"

namespace tb::drivers::cuda {
namespace {

uintptr_t address_of(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void *pointer_of(CUdeviceptr address) { return reinterpret_cast<void *>(static_cast<uintptr_t>(address)); }

void note(Device &device, CUdeviceptr address, bool stream_ordered) {
  std::lock_guard lock(device.mutex);
  device.blocks[static_cast<uintptr_t>(address)] = {device.generation, stream_ordered};
}

tb_status report_allocation(Driver &driver, Device &device, CUresult result, const char *function, uint64_t size) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t free = 0, total = 0;
    const bool asked = driver.api.cuMemGetInfo && driver.api.cuMemGetInfo(&free, &total) == CUDA_SUCCESS;
    const std::string text =
        std::string(ByteText(size).text) + " on CUDA device " + std::to_string(device.number) +
        (asked ? std::string(", of which ") + ByteText(free).text + " of " + ByteText(total).text + " are free" : "") +
        ": " + function;
    return fail_cuda(driver.host, driver.api, TB_OUT_OF_MEMORY, result, text.c_str());
  }
  return driver.report(device, result, function);
}

// Takes a block out of the list. *gone: its memory went with a reset.
tb_status take(Driver &driver, Device &device, void *pointer, Block *block, bool *gone) {
  std::lock_guard lock(device.mutex);
  const auto found = device.blocks.find(address_of(pointer));
  if (found == device.blocks.end())
    return fail(driver.host, TB_INVALID_ARGUMENT, "%p is no block of device %d, or was freed already", pointer,
                device.number);
  *block = found->second;
  *gone = block->generation != device.generation;
  device.blocks.erase(found);
  return TB_OK;
}

// A refused free has changed nothing (rule E8).
tb_status settle(Device &device, void *pointer, const Block &block, tb_status status) {
  if (!tb_is_refusal(status)) return status;
  std::lock_guard lock(device.mutex);
  device.blocks[address_of(pointer)] = block;
  return status;
}

bool overlaps(const std::map<uintptr_t, Driver::HostRange> &ranges, uintptr_t begin, uint64_t size) {
  const auto next = ranges.lower_bound(begin);
  if (next != ranges.end() && next->first - begin < size) return true;
  return next != ranges.begin() && begin - std::prev(next)->first < std::prev(next)->second.size;
}

} // namespace

namespace slots {

tb_status mem_alloc(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, void **out) {
  return with_device(self, number, {{{out, "out"}}, flags}, [&](Driver &driver, Device &device) -> tb_status {
    tb_status status = TB_OK;
    CUdeviceptr address = 0;
    const CUresult result = driver.api.cuMemAlloc(&address, size ? size : 1);
    if ((status = report_allocation(driver, device, result, "cuMemAlloc", size))) return status;
    note(device, address, false);
    *out = pointer_of(address);
    return TB_OK;
  });
}

tb_status mem_free(tb_driver *self, int32_t number, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    Device *device = driver.device(number, &status);
    if (!device || !pointer) return status;
    Block block{};
    bool gone = false;
    if ((status = take(driver, *device, pointer, &block, &gone)) || gone) return status;
    const Current current(driver, *device);
    status = current.status ? current.refusal()
                            : driver.report(*device, driver.api.cuMemFree(address_of(pointer)), "cuMemFree");
    return settle(*device, pointer, block, status);
  });
}

tb_status mem_alloc_async(tb_driver *self, tb_stream *handle, uint64_t size, uint64_t flags, void **out) {
  return with_object<Stream>(
      self, handle, "stream", {{{out, "out"}}, flags}, [&](Driver &driver, Stream &stream) -> tb_status {
        tb_status status = TB_OK;
        Device &device = stream.device;
        if (driver.is_capturing(stream))
          return fail(driver.host, TB_UNSUPPORTED,
                      "the CUDA driver captures no allocation: allocate before the capture");
        CUdeviceptr address = 0;
        const CUresult result = driver.api.cuMemAllocAsync(&address, size ? size : 1, stream.native);
        if ((status = report_allocation(driver, device, result, "cuMemAllocAsync", size))) return status;
        note(device, address, true);
        *out = pointer_of(address);
        return TB_OK;
      });
}

tb_status mem_free_async(tb_driver *self, tb_stream *handle, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(handle, "stream")) return status;
    Stream *stream = Stream::of(handle);
    if (!pointer) return TB_OK;
    Device &device = stream->device;
    const Current current(driver, device);
    if (current.status == TB_OK && driver.is_capturing(*stream))
      return fail(driver.host, TB_UNSUPPORTED, "the CUDA driver captures no free: free after the capture");
    Block block{};
    bool gone = false;
    tb_status status = take(driver, device, pointer, &block, &gone);
    if (status || gone) return status;
    if (!block.stream_ordered)
      return settle(device, pointer, block,
                    fail(driver.host, TB_INVALID_ARGUMENT,
                         "%p is not from mem_alloc_async: CUDA frees it by mem_free only", pointer));
    status = current.status ? current.refusal()
                            : driver.report(device, driver.api.cuMemFreeAsync(address_of(pointer), stream->native),
                                            "cuMemFreeAsync");
    return settle(device, pointer, block, status);
  });
}

tb_status mem_alloc_host(tb_driver *self, int32_t number, uint64_t size, uint64_t flags, void **out) {
  return with_device(self, number, {{{out, "out"}}, flags}, [&](Driver &driver, Device &device) -> tb_status {
    tb_status status = TB_OK;
    void *memory = nullptr;
    const uint64_t asked = size ? size : 1;
    status =
        driver.report(device, driver.api.cuMemHostAlloc(&memory, asked, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    if (status) return status;
    std::lock_guard lock(driver.mutex);
    driver.host_ranges[address_of(memory)] = {asked, false};
    *out = memory;
    return TB_OK;
  });
}

tb_status mem_register_host(tb_driver *self, int32_t number, void *pointer, uint64_t size, uint64_t flags) {
  return with_device(self, number, {{{pointer, "ptr"}}, flags}, [&](Driver &driver, Device &device) -> tb_status {
    tb_status status = TB_OK;
    std::lock_guard lock(driver.mutex); // also over the call: two threads may register one range
    if (overlaps(driver.host_ranges, address_of(pointer), size))
      return fail(driver.host, TB_ALREADY_EXISTS, "%s at %p overlap host memory that the device knows already",
                  ByteText(size).text, pointer);
    status = driver.report(device, driver.api.cuMemHostRegister(pointer, size, CU_MEMHOSTREGISTER_PORTABLE),
                           "cuMemHostRegister");
    if (status == TB_OK) driver.host_ranges[address_of(pointer)] = {size, true};
    return status;
  });
}

} // namespace slots

namespace {

tb_status give_back_host(Driver &driver, void *pointer, bool registered, CUresult (*release)(void *),
                         const char *name) {
  std::lock_guard lock(driver.mutex);
  const auto found = driver.host_ranges.find(address_of(pointer));
  if (found == driver.host_ranges.end() || found->second.registered != registered)
    return fail(driver.host, TB_INVALID_ARGUMENT, "%p is not %s, or was given back already", pointer,
                registered ? "the start of a registered range" : "pinned memory of this driver");
  tb_status status = TB_OK;
  for (const auto &device : driver.devices) {
    if (!device->context) continue;
    const Current current(driver, *device); // any: the memory is every context's
    status = current.status ? current.refusal() : driver.report(*device, release(pointer), name);
    break;
  }
  if (!tb_is_refusal(status)) driver.host_ranges.erase(found);
  return status;
}

} // namespace

namespace slots {

tb_status mem_free_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (!pointer) return TB_OK;
    return give_back_host(driver, pointer, false, driver.api.cuMemFreeHost, "cuMemFreeHost");
  });
}

tb_status mem_unregister_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(pointer, "ptr")) return status;
    return give_back_host(driver, pointer, true, driver.api.cuMemHostUnregister, "cuMemHostUnregister");
  });
}

tb_status mem_get_info(tb_driver *self, const void *pointer, tb_pointer_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    unsigned type = 0;
    int device = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&type, &device, &base, &size};
    const CUresult result = driver.api.cuPointerGetAttributes(4, attributes, values, address_of(pointer));
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_CONTEXT)
      return driver.report(result, "cuPointerGetAttributes");
    if (result != CUDA_SUCCESS || type == 0 || !base)
      return fail(driver.host, TB_NOT_FOUND, "%p is not memory that CUDA knows", pointer);
    tb_pointer_info info = {};
    info.kind = type == CU_MEMORYTYPE_HOST ? TB_POINTER_HOST_PINNED : TB_POINTER_DEVICE;
    info.device = device;
    info.base = pointer_of(base);
    info.size = size;
    return fill_info(driver.host, info, out);
  });
}

} // namespace slots
} // namespace tb::drivers::cuda

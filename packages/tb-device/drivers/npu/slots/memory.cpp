// The table's functions about blocks, pinned memory and addresses (CORE, PIN, PTR, VMM).
#include "drivers/npu/driver.h"

namespace tb::drivers::npu {
namespace {

using Kind = Ranges::Kind;

Ranges::Range known(Driver &driver, void *pointer, Kind kind, const char *what) {
  const auto range = driver.ranges.starting(pointer);
  if (!range || range->kind != kind) refuse(TB_INVALID_ARGUMENT, "%p is no %s of this driver", pointer, what);
  return *range;
}

// Forgets the range when the library takes it, also by a call that failed (rule E8).
template <class F> void release(Driver &driver, const Ranges::Range &range, void *pointer, const F &function) {
  if (!driver.ranges.take(pointer, range.kind))
    refuse(TB_INVALID_ARGUMENT, "%p has been given back by another thread", pointer);
  const acl::Error error = driver.runtime->give_back(range.device, driver.host, function, pointer);
  if (error && tb_is_refusal(status_of(error))) {
    driver.ranges.put_back(range);
    driver.runtime->fail(function.name, error);
  }
  driver.runtime->check(function.name, error);
}

std::shared_ptr<Physical> &physical_of(tb_physical *handle) {
  return *reinterpret_cast<std::shared_ptr<Physical> *>(handle);
}

} // namespace

namespace slots {

tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    driver.refuse_flags(flags, 0);
    if (size > uint64_t(1) << 48)
      refuse(TB_OUT_OF_MEMORY, "no device has %llu bytes", static_cast<unsigned long long>(size));
    const Bound bound = driver.bind(device);
    const Library &library = driver.library;
    void *memory = nullptr;
    const uint64_t asked = size ? size : 1; // the library gives nothing for 0
    // The older function adds 32 bytes, which operators may write.
    driver.call(library.aclrtMallocAlign32 ? library.aclrtMallocAlign32 : library.aclrtMalloc, &memory, size_t(asked),
                int32_t(acl::huge_pages_first));
    driver.ranges.add(memory, asked, Kind::device, device);
    *out = memory;
  });
}

tb_status mem_free(tb_driver *self, int32_t device, void *pointer) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    if (!pointer) return; // an error for the library
    const Ranges::Range block = known(driver, pointer, Kind::device, "device block");
    if (block.device != device)
      refuse(TB_INVALID_ARGUMENT, "%p is a block of device %d, not of device %d", pointer, block.device, device);
    release(driver, block, pointer, driver.library.aclrtFree);
  });
}

tb_status mem_alloc_host(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    driver.refuse_flags(flags, 0);
    const Bound bound = driver.bind(device);
    void *memory = nullptr;
    const uint64_t asked = size ? size : 1;
    driver.call(driver.library.aclrtMallocHost, &memory, size_t(asked));
    driver.ranges.add(memory, asked, Kind::pinned, device);
    *out = memory;
  });
}

tb_status mem_free_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) {
    if (!pointer) return;
    const Ranges::Range block = known(driver, pointer, Kind::pinned, "pinned block");
    release(driver, block, pointer, driver.library.aclrtFreeHost);
  });
}

tb_status mem_register_host(tb_driver *self, int32_t device, void *pointer, uint64_t size, uint64_t flags) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(pointer, "ptr");
    driver.refuse_flags(flags, 0);
    if (size == 0) refuse(TB_INVALID_ARGUMENT, "a range of 0 bytes cannot be registered");
    const Bound bound = driver.bind(device);
    if (!driver.ranges.add_unless_known(pointer, size, Kind::registered, device))
      refuse(TB_ALREADY_EXISTS, "%p and %llu bytes overlap memory that is pinned already", pointer,
             static_cast<unsigned long long>(size));
    void *on_device = nullptr;
    const acl::Error error = driver.library.aclrtHostRegister(pointer, size, int32_t(acl::register_mapped), &on_device);
    if (!error) return;
    driver.ranges.take(pointer, Kind::registered);
    driver.runtime->fail(driver.library.aclrtHostRegister.name, error);
  });
}

tb_status mem_unregister_host(tb_driver *self, void *pointer) {
  return with(self, [&](Driver &driver) {
    driver.need(pointer, "ptr");
    const Ranges::Range range = known(driver, pointer, Kind::registered, "registered range");
    release(driver, range, pointer, driver.library.aclrtHostUnregister);
  });
}

tb_status mem_get_info(tb_driver *self, const void *pointer, tb_pointer_info *out) {
  return with(self, [&](Driver &driver) {
    driver.need(out, "out");
    tb_pointer_info info = {};
    VirtualMemory::Mapped mapped;
    if (const auto range = driver.ranges.find(pointer)) {
      info.kind = range->kind == Kind::device ? TB_POINTER_DEVICE : TB_POINTER_HOST_PINNED;
      info.device = range->device;
      info.base = reinterpret_cast<void *>(range->base);
      info.size = range->size;
    } else if (driver.virtual_memory.find(pointer, &mapped)) {
      info.kind = TB_POINTER_DEVICE;
      info.device = mapped.device;
      info.base = reinterpret_cast<void *>(mapped.base);
      info.size = mapped.size;
    } else {
      refuse(TB_NOT_FOUND, "%p is not memory of this driver", pointer);
    }
    return fill_info(driver.host, info, out);
  });
}

tb_status vmm_granularity(tb_driver *self, int32_t device, uint64_t *out_minimum, uint64_t *out_recommended) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out_minimum, "out_minimum");
    driver.need(out_recommended, "out_recommended");
    const uint64_t minimum = driver.virtual_memory.granule(device, acl::minimum_option);
    *out_recommended = driver.virtual_memory.granule(device, acl::recommended);
    *out_minimum = minimum;
  });
}

tb_status vmm_reserve(tb_driver *self, uint64_t size, uint64_t alignment, void *, void **out) {
  return with(self, [&](Driver &driver) {
    driver.need(out, "out");
    *out = driver.virtual_memory.reserve(size, alignment);
  });
}

tb_status vmm_release(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) { driver.virtual_memory.release(address, size); });
}

tb_status vmm_create(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, tb_physical **out) {
  return with(self, [&](Driver &driver) {
    driver.need_device(device);
    driver.need(out, "out");
    driver.refuse_flags(flags, 0);
    *out = reinterpret_cast<tb_physical *>(driver.virtual_memory.create(device, size));
  });
}

tb_status vmm_destroy(tb_driver *self, tb_physical *physical) {
  return with(self, [&](Driver &driver) {
    driver.need(physical, "physical");
    driver.virtual_memory.destroy(&physical_of(physical));
  });
}

tb_status vmm_map(tb_driver *self, void *address, uint64_t size, tb_physical *physical, uint64_t offset) {
  return with(self, [&](Driver &driver) {
    driver.need(address, "address");
    driver.need(physical, "physical");
    driver.virtual_memory.map(address, size, physical_of(physical), offset);
  });
}

tb_status vmm_unmap(tb_driver *self, void *address, uint64_t size) {
  return with(self, [&](Driver &driver) { driver.virtual_memory.unmap(address, size); });
}

tb_status vmm_set_access(tb_driver *self, void *address, uint64_t size, const int32_t *devices, uint32_t device_count,
                         uint32_t access) {
  return with(self, [&](Driver &driver) {
    if (device_count) driver.need(devices, "devices");
    for (uint32_t each = 0; each < device_count; ++each) driver.need_device(devices[each]);
    driver.virtual_memory.set_access(address, size, devices, device_count, access);
  });
}

} // namespace slots
} // namespace tb::drivers::npu

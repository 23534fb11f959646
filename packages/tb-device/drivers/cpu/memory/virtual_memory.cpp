// Maps ranges of the devices' memfds at reserved addresses.
#include "drivers/cpu/memory/virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "drivers/common/error_text.h"

namespace tb::drivers::cpu {

VirtualMemory::~VirtualMemory() {
  for (const auto &[device, file] : files_) close(file.descriptor);
}

tb_status VirtualMemory::reserve(uint64_t size, uint64_t alignment, void *hint, void **out) {
  return map_.reserve(mutex_, size, alignment, hint, out);
}

tb_status VirtualMemory::release(void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  return map_.release(address, size);
}

tb_status VirtualMemory::create(Device &device, uint64_t size, tb_physical **out) {
  if (const tb_status status = map_.check_range("vmm_create", 0, size)) return status;
  const ByteText asked(size), limit(device.budget().limit()), used(device.budget().used());
  auto physical = std::make_unique<Physical>(Physical{&device, size, 0, 1});
  std::lock_guard lock(mutex_);
  File &file = files_[device.number()];
  if (file.descriptor < 0) {
    file.descriptor = memfd_create("tb-cpu-device", MFD_CLOEXEC);
    if (file.descriptor < 0) return fail_native(host_, TB_UNAVAILABLE, errno, "the system gives no memfd");
  }
  if (!device.budget().charge(size))
    return fail(host_, TB_OUT_OF_MEMORY,
                "%s on device %d do not fit: its limit is %s and %s of it are in use. Free memory, or raise the "
                "driver's option \"memory\" (TB_CPU_MEMORY)",
                asked.text, device.number(), limit.text, used.text);
  if (ftruncate(file.descriptor, static_cast<off_t>(file.size + size)) != 0) {
    const int code = errno;
    device.budget().refund(size);
    return fail_native(host_, TB_OUT_OF_MEMORY, code, "the system refused %s of shared memory (%s)", asked.text,
                       std::strerror(code));
  }
  physical->file_offset = file.size;
  file.size += size;
  ++physical_count_;
  *out = reinterpret_cast<tb_physical *>(physical.release());
  return TB_OK;
}

void VirtualMemory::drop(Physical *physical) noexcept {
  if (--physical->references != 0) return;
  fallocate(files_[physical->device->number()].descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(physical->file_offset), static_cast<off_t>(physical->size));
  physical->device->budget().refund(physical->size);
  delete physical;
}

tb_status VirtualMemory::destroy(tb_physical *handle) {
  std::lock_guard lock(mutex_);
  --physical_count_;
  drop(reinterpret_cast<Physical *>(handle));
  return TB_OK;
}

tb_status VirtualMemory::map(void *address, uint64_t size, tb_physical *handle, uint64_t offset) {
  auto *physical = reinterpret_cast<Physical *>(handle);
  std::lock_guard lock(mutex_);
  const int file = files_[physical->device->number()].descriptor;
  const tb_status status =
      map_.map(address, Mapping{{size}, physical}, offset, physical->size, file, physical->file_offset + offset);
  if (status == TB_OK) ++physical->references;
  return status;
}

tb_status VirtualMemory::unmap(void *address, uint64_t size) {
  std::lock_guard lock(mutex_);
  return map_.unmap(address, size, [&](const Mapping &mapping) { drop(mapping.physical); });
}

tb_status VirtualMemory::set_access(void *address, uint64_t size, const int32_t *devices, uint32_t device_count,
                                    uint32_t access) {
  if (const tb_status status = check_access(host_, access)) return status;
  uint64_t named = 0;
  for (uint32_t place = 0; place < device_count; ++place) named |= uint64_t(1) << devices[place];
  std::lock_guard lock(mutex_);
  return map_.set_access(address, size, named, access, [](uintptr_t start, const Mapping &mapping) {
    return mprotect(address_pointer(start), mapping.size, mapping.protection()) == 0;
  });
}

bool VirtualMemory::find(const void *pointer, tb_pointer_info *out) {
  std::lock_guard lock(mutex_);
  uintptr_t base = 0;
  const Mapping *mapping = map_.find(reinterpret_cast<uintptr_t>(pointer), &base);
  if (!mapping) return false;
  out->kind = TB_POINTER_DEVICE;
  out->device = mapping->physical->device->number();
  out->base = address_pointer(base);
  out->size = mapping->size;
  return true;
}

VirtualMemory::Counts VirtualMemory::counts() {
  std::lock_guard lock(mutex_);
  return {map_.count(), physical_count_};
}

} // namespace tb::drivers::cpu

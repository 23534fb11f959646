// Virtual memory (VMM): reserved addresses, physical memory, and mappings between them.
//
// Physical memory is a range of one sparse memfd per device (a descriptor per object would run into the limit of open
// files). Ranges are taken in ascending order and never reused; a freed one is punched out. 2^63 bytes of file never
// run out. Devices share the process's page tables, so a page is accessible as soon as one device has access.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "drivers/common/reservation_map.h"
#include "drivers/cpu/device/device.h"
#include "tb/driver.h"

namespace tb::drivers::cpu {

class VirtualMemory {
public:
  static constexpr uint64_t granularity = uint64_t(2) << 20;
  static constexpr uint64_t largest = uint64_t(1) << 56; // of a size or an alignment

  explicit VirtualMemory(const tb_host *host) : host_(host), map_(host, granularity, largest) {}
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory &) = delete;
  VirtualMemory &operator=(const VirtualMemory &) = delete;

  tb_status reserve(uint64_t size, uint64_t alignment, void *hint, void **out);
  tb_status release(void *address, uint64_t size);
  tb_status create(Device &device, uint64_t size, tb_physical **out);
  tb_status destroy(tb_physical *physical);
  tb_status map(void *address, uint64_t size, tb_physical *physical, uint64_t offset);
  // Whole mappings only, one or several.
  tb_status unmap(void *address, uint64_t size);
  tb_status set_access(void *address, uint64_t size, const int32_t *devices, uint32_t device_count, uint32_t access);
  // The mapping that holds an address. False: none. Fills all but struct_size.
  bool find(const void *pointer, tb_pointer_info *out);

  struct Counts {
    size_t reservations, physicals;
  };
  Counts counts();

private:
  struct Physical {
    Device *device;
    uint64_t size;
    uint64_t file_offset;
    uint32_t references; // the handle and each mapping
  };
  struct Mapping : MappedRange {
    Physical *physical;
  };
  struct File {
    int descriptor = -1;
    uint64_t size = 0;
  };
  void drop(Physical *physical) noexcept; // with the lock held

  const tb_host *const host_;
  std::mutex mutex_;
  ReservationMap<Mapping> map_;
  std::map<int32_t, File> files_; // by device, made at its first physical memory
  size_t physical_count_ = 0;     // handles not destroyed
};

} // namespace tb::drivers::cpu

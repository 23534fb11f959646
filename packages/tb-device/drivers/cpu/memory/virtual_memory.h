// Addresses apart from memory: reservations, physical memory, mappings.
//
// Physical memory is a range of one sparse memfd per device (a descriptor per object would run into the limit of open
// files). Ranges are handed out upwards and never again, a freed one is punched out: 2^63 bytes of file last for ever.
// Devices share the process's page tables, so a page is accessible as soon as one device has access.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "drivers/cpu/device.h"
#include "tb/driver.h"

namespace tb::cpu {

class VirtualMemory {
public:
  static constexpr uint64_t granularity = uint64_t(2) << 20;

  explicit VirtualMemory(const tb_host *host) : host_(host) {}
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
  struct Mapping {
    uint64_t size;
    Physical *physical;
    uint64_t readers = 0, writers = 0; // a bit for each device
    int protection() const noexcept;
  };
  struct File {
    int descriptor = -1;
    uint64_t size = 0;
  };
  using Mappings = std::map<uintptr_t, Mapping>;

  // All with the lock held.
  tb_status check_range(const char *what, uintptr_t address, uint64_t size) const;
  bool inside_reservation(uintptr_t address, uint64_t size) const;
  bool overlaps_mapping(uintptr_t address, uint64_t size) const;
  // The mappings that make up a range exactly; fails when one reaches beyond it or, with `gapless`, when one lacks.
  tb_status whole_mappings(uintptr_t address, uint64_t size, bool gapless, Mappings::iterator *first,
                           Mappings::iterator *last);
  void drop(Physical *physical) noexcept;

  const tb_host *const host_;
  std::mutex mutex_;
  std::map<uintptr_t, uint64_t> reservations_; // address to size
  Mappings mappings_;
  std::map<int32_t, File> files_; // by device, made at its first physical memory
  size_t physical_count_ = 0;     // handles not destroyed
};

} // namespace tb::cpu

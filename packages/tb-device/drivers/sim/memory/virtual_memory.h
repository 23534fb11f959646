// Virtual memory (VMM): reserved addresses, physical memory, and mappings between them.
//
// Physical memory is a part of its device's file. A mapping shows it at the caller's address with the access that was
// granted, but only while functions of the host run; the driver itself works through the arena's inner mapping.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "drivers/common/reservation_map.h"
#include "drivers/sim/memory/blocks.h"
#include "tb/driver.h"

namespace tb::drivers::sim {

class VirtualMemory {
public:
  static constexpr uint64_t granularity = 65536;         // a multiple of every system's page
  static constexpr uint64_t largest = uint64_t(1) << 46; // of a size or an alignment: no machine has more addresses

  VirtualMemory(const tb_host *host, std::vector<std::unique_ptr<Blocks>> &devices, bool isolated);
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory &) = delete;
  VirtualMemory &operator=(const VirtualMemory &) = delete;

  tb_status reserve(uint64_t size, uint64_t alignment, void *hint, void **out);
  tb_status release(void *address, uint64_t size);
  tb_status create(int32_t device, uint64_t size, tb_physical **out);
  tb_status destroy(tb_physical *physical);
  tb_status map(void *address, uint64_t size, tb_physical *physical, uint64_t offset);
  tb_status unmap(void *address, uint64_t size);
  // `devices` has a bit for each named device.
  tb_status set_access(void *address, uint64_t size, uint32_t devices, uint32_t access);

  // The mapping that holds an address; fills all but struct_size.
  bool find(const void *pointer, tb_pointer_info *out);
  bool in_reservation(uintptr_t address);
  // For a signal handler: the device that is mapped at an address, -1 also when another thread holds the lock.
  int32_t try_device_at(uintptr_t address);

  struct Piece {
    std::byte *inner;
    uint64_t size;
  };
  // Where the driver finds a range that starts in a reservation. A text: `device` has no access to a part of it.
  std::string resolve(uintptr_t address, uint64_t size, bool write, int32_t device, std::vector<Piece> *out);

  struct Counts {
    size_t reservations, physicals;
  };
  Counts counts();
  void lose(int32_t device); // its physical memory is gone; handles and mappings can still be released
  void open();
  void shut();

private:
  struct Physical {
    int32_t device;
    uint64_t size;
    uint64_t offset;        // in the device's file
    uint32_t references;    // the handle and each mapping
    bool gone = false;      // lost with its device
    bool destroyed = false; // only mappings hold it
  };
  struct Mapping : MappedRange {
    Physical *physical;
    uint64_t offset; // in the device's file
  };

  // All with the lock held.
  bool protect(uintptr_t address, const Mapping &mapping) const;
  Physical *physical_of(tb_physical *handle); // NULL with a text
  void drop(Physical *physical) noexcept;

  const tb_host *const host_;
  std::vector<std::unique_ptr<Blocks>> &devices_;
  const bool isolated_;
  std::mutex mutex_;
  std::vector<Extents> extents_; // by device
  ReservationMap<Mapping> map_;
  std::map<tb_physical *, std::unique_ptr<Physical>> physicals_; // also those that only mappings hold
  size_t handles_ = 0;
  bool open_ = false;
};

} // namespace tb::drivers::sim

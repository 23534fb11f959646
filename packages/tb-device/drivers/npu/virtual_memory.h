// Virtual memory (VMM) over a library whose rules are narrower than the table's.
//
// The library maps whole pieces of memory only, and a mapping is usable at once. So memory is made of pieces of one
// granule, each mapped by itself, and a piece is mapped when access is given, not before. The library ignores
// alignment: a larger range is reserved.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/npu/runtime.h"

namespace tb::drivers::npu {

// What a tb_physical is, and what its mappings hold: freed with the last of them.
class Physical {
public:
  Physical(Runtime &runtime, int32_t device, uint64_t granule, uint64_t size, const tb_host *host);
  ~Physical();
  Physical(const Physical &) = delete;
  const int32_t device;
  const uint64_t size;
  std::vector<acl::Physical> pieces;

private:
  void free() noexcept;
  Runtime &runtime_;
  const tb_host *host_;
};

class VirtualMemory {
public:
  struct Counts {
    size_t reservations, physicals;
  };
  struct Mapped {
    uintptr_t base;
    uint64_t size;
    int32_t device;
  };

  VirtualMemory(Runtime &runtime, const tb_host *host) : runtime_(runtime), host_(host) {}
  VirtualMemory(const VirtualMemory &) = delete;

  uint64_t granule(int32_t device, int32_t option);
  void *reserve(uint64_t size, uint64_t alignment);
  void release(void *address, uint64_t size);
  std::shared_ptr<Physical> *create(int32_t device, uint64_t size);
  void destroy(std::shared_ptr<Physical> *physical);
  void map(void *address, uint64_t size, const std::shared_ptr<Physical> &physical, uint64_t offset);
  void unmap(void *address, uint64_t size);
  void set_access(void *address, uint64_t size, const int32_t *devices, uint32_t device_count, uint32_t access);
  // The mapping that holds the address; false if none does.
  bool find(const void *pointer, Mapped *out);
  Counts counts();

private:
  struct Mapping {
    uint64_t size;
    std::shared_ptr<Physical> physical;
    uint64_t first;           // of its pieces
    std::vector<bool> usable; // pieces that the library has mapped
  };
  struct Reservation {
    uint64_t size;
    void *native; // what the library reserved; the aligned range is inside
    std::map<uintptr_t, Mapping> mappings;
  };
  using Place = std::map<uintptr_t, Reservation>::iterator;
  Place holder(uintptr_t address, uint64_t size); // the reservation, or end()
  void unmap_piece(Mapping &mapping, uintptr_t base, size_t piece);

  Runtime &runtime_;
  const tb_host *host_;
  std::mutex mutex_;
  std::map<uintptr_t, Reservation> reservations_;
  size_t physicals_ = 0; // handles
};

} // namespace tb::drivers::npu

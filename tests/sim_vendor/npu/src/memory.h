// memory.h -- device memory, which the host cannot access, pinned host memory, and reserved addresses.
//
// The process may not access a device address; the bytes are stored elsewhere, and only the library knows where. A
// program that dereferences a device pointer on the host therefore crashes, as it would on a machine with an NPU.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "acl.h"

namespace sim {

enum class Place { pageable, pinned, device };

// Visible for the library of operators, which accesses device memory.
class [[gnu::visibility("default")]] Memory {
public:
  ~Memory();
  // Makes new memory for every device. Older memory that is still alive stays readable but is not counted any more.
  void start(int32_t devices, uint64_t bytes);

  Error allocate(int32_t device, uint64_t size, void **out);
  Error release(void *pointer);
  void usage(int32_t device, uint64_t *free, uint64_t *total);

  Error allocate_host(uint64_t size, void **out);
  Error release_host(void *pointer);
  Error register_host(void *pointer, uint64_t size);
  Error unregister_host(void *pointer);

  Error reserve(uint64_t size, void **out);
  Error unreserve(void *address);
  Error create_physical(int32_t device, uint64_t size, void **out);
  Error destroy_physical(void *handle);
  Error map(void *address, uint64_t size, void *handle);
  Error unmap(void *address);

  Place place(const void *pointer, int32_t *device);
  // Calls `piece` for each piece of [address, address + size) in order. Host memory is one piece. Returns an error for
  // a device address without memory.
  Error access(const void *address, uint64_t size, const std::function<void(uint8_t *bytes, uint64_t size)> &piece);
  // Finds where the bytes [address, address + size) are stored, in order, for an operator of the device. False if some
  // of them are not the device's, or are not in one live block or mapped.
  struct Piece {
    uint8_t *bytes;
    uint64_t size;
  };
  bool locate(int32_t device, const void *address, uint64_t size, std::vector<Piece> *pieces);
  struct Counts {
    uint64_t blocks, pinned, registered, physicals, addresses;
  };
  Counts counts();

private:
  struct Range {
    int32_t device;
    uint64_t size, asked;
  };
  struct Arena { // the memory of a device
    uint8_t *addresses = nullptr, *bytes = nullptr;
    uint64_t size = 0, used = 0;
    std::map<uint64_t, uint64_t> holes; // free parts: offset -> size
  };
  struct Physical {
    int32_t device;
    uint64_t offset, size;
    int mapped = 0;
    bool destroyed = false;
  };
  struct Mapping {
    uint64_t size;
    Physical *physical;
  };
  bool take(Arena &arena, uint64_t size, uint64_t alignment, uint64_t *offset);
  void give(Arena &arena, uint64_t offset, uint64_t size);
  void drop(Physical *physical);
  bool overlaps_host(uintptr_t address, uint64_t size);

  std::mutex mutex_;
  std::vector<Arena> arenas_;
  std::map<uintptr_t, Range> blocks_;                     // device memory
  std::map<uintptr_t, uint64_t> pinned_, registered_;     // host memory
  std::map<uintptr_t, uint64_t> reserved_;                // address ranges
  std::map<uintptr_t, Mapping> mappings_;                 // inside reserved ranges
  std::map<void *, std::unique_ptr<Physical>> physicals_; // by handle; a destroyed one is kept while it is mapped
};

} // namespace sim

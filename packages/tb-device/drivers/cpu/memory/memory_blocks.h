// Blocks of device and pinned host memory, and the map from addresses to them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "drivers/cpu/device/device.h"
#include "drivers/cpu/ipc/exports.h"
#include "tb/driver.h"

namespace tb::drivers::cpu {

class Memory {
public:
  static constexpr uint64_t block_alignment = 64;
  // Blocks from here on start at a huge page and ask for them: a first touch of 2 MiB took 0.20 ms instead of 0.79 ms.
  static constexpr uint64_t huge_page = uint64_t(2) << 20;

  Memory(const tb_host *host, Exports &exports) : host_(host), exports_(exports) {}

  // The failing ones set a text. `kind` is TB_POINTER_*; only device memory is charged to the device's budget.
  tb_status allocate(Device &device, uint64_t size, int32_t kind, void **out);
  // device NULL: any. The block must start at `pointer` and be of that kind.
  tb_status free(const Device *device, void *pointer, int32_t kind);
  // Frees in two steps: retire() takes the block from the caller, free_retired() gives the memory back.
  tb_status retire(const Device &device, void *pointer);
  void restore(void *pointer) noexcept; // undoes a retire
  void free_retired(void *pointer) noexcept;
  // Exports a block of device memory to other processes. The first export moves its pages into a file.
  tb_status export_block(void *pointer, tb_ipc_handle *out);
  tb_status import_block(Device &device, const File &file, uint64_t size, void **out);
  tb_status close_import(void *pointer);
  // Registers memory of the caller as pinned. Overlap with a known block: TB_ALREADY_EXISTS.
  tb_status register_host(Device &device, void *pointer, uint64_t size);
  tb_status unregister_host(void *pointer);
  // Finds the block of a pointer, also of an interior one. False: unknown. Fills all but struct_size.
  bool find(const void *pointer, tb_pointer_info *out);

  struct Counts {
    size_t device, pinned, registered, imported;
  };
  Counts counts(); // without the retired

private:
  struct Block {
    uint64_t size;        // as asked for
    uint64_t mapped = 0;  // bytes mapped from the system; 0: from the heap
    uint64_t charged = 0; // to the device's budget
    Device *device;
    int32_t kind;
    bool registered = false; // not ours to free
    bool retired = false;
    bool imported = false;
    File file = {}; // holds the pages, once exported
    std::unique_ptr<Exports::Publication> publication = nullptr;
  };
  using Blocks = std::map<uintptr_t, Block>;

  // With the lock held.
  Blocks::iterator holding(uintptr_t address);
  tb_status check_start(const char *function, void *pointer, Blocks::iterator *out);
  tb_status check_free(const Device *device, void *pointer, int32_t kind, Blocks::iterator *out);
  void give_back(void *pointer, Block &block) noexcept; // without the lock

  const tb_host *const host_;
  Exports &exports_;
  std::mutex mutex_;
  Blocks blocks_;
};

} // namespace tb::drivers::cpu

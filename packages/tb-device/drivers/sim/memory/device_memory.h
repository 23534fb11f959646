// All memory of a sim driver: classifies addresses and translates them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "drivers/sim/device/options.h"
#include "drivers/sim/memory/blocks.h"
#include "drivers/sim/memory/pinned.h"
#include "drivers/sim/memory/virtual_memory.h"
#include "tb/driver.h"

namespace tb::drivers::sim {

enum class Access { read, write };
enum class Side { host, device };

class Memory {
public:
  Memory(const tb_host *host, const Options &options);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  std::vector<std::unique_ptr<Blocks>> devices;
  VirtualMemory virtual_memory;
  Pinned pinned;

  // The device whose block, mapping or variable holds an address, or -1. A freed block's too.
  int32_t device_of(uintptr_t address);
  // Describes a live pointer; fills all but struct_size.
  bool find(const void *pointer, tb_pointer_info *out);
  // Checks a range at the call, before it is used. Returns a text if it is on the wrong side or leaves its block.
  std::string check(const void *address, uint64_t size, Side side);
  // Checks and translates a range when the work runs. `usable` is false if not even poison can be read. `problem` is a
  // bug of the program.
  struct Resolved {
    std::vector<VirtualMemory::Piece> pieces;
    std::string problem;
    bool usable = true;
  };
  Resolved resolve(const void *address, uint64_t size, Access access, int32_t device);

  // Variables of a module's image are device memory outside the arena, until `owner` is forgotten.
  void add_variable(const void *owner, int32_t device, void *address, uint64_t size);
  void forget_variables(const void *owner);

  // While a host function runs on a driver thread, it may touch device memory.
  void open();
  void shut();

  // For the signal handler: a sentence about an address of isolated memory. False: the address is not such.
  bool describe(uintptr_t address, char *text, size_t size) noexcept;

private:
  struct Variable {
    const void *owner;
    uint64_t size;
    int32_t device;
  };
  const Variable *variable_at(uintptr_t address, uint64_t *into); // with variables_mutex_ held

  std::mutex window_mutex_;
  uint32_t functions_ = 0;
  const bool isolated_;
  std::mutex variables_mutex_;
  std::map<uintptr_t, Variable> variables_;
};

} // namespace tb::drivers::sim

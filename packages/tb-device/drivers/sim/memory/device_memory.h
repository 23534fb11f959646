// Everything that an address can be, and where the driver finds what is there.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "drivers/sim/memory/blocks.h"
#include "drivers/sim/memory/pinned.h"
#include "drivers/sim/memory/virtual_memory.h"
#include "drivers/sim/options.h"
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
  // What a live pointer is; fills all but struct_size.
  bool find(const void *pointer, tb_pointer_info *out);
  // At the call: what can be told of a range before it is used. A text when it is on the wrong side or leaves its block.
  std::string check(const void *address, uint64_t size, Side side);
  // When the work runs. `usable` false: not even poison is there to be read. A text is a bug of the program.
  struct Resolved {
    std::vector<VirtualMemory::Piece> pieces;
    std::string problem;
    bool usable = true;
  };
  Resolved resolve(const void *address, uint64_t size, Access access, int32_t device);

  // Variables of a module's image: device memory that lies elsewhere, until `owner` is forgotten.
  void add_variable(const void *owner, int32_t device, void *address, uint64_t size);
  void forget_variables(const void *owner);

  // While any function of the host runs on a driver thread, it may touch device memory.
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

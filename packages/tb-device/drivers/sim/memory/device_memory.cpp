// Translates callers' addresses into the driver's own and describes what is wrong with them.
#include "drivers/sim/memory/device_memory.h"

#include <algorithm>
#include <cstdio>

#include "drivers/sim/memory/fault_handler.h"

namespace tb::drivers::sim {

namespace {

unsigned long long number(uint64_t value) { return value; }

std::string text_of_block(const Blocks::Found &found, int32_t device) {
  char text[128];
  std::snprintf(text, sizeof text, "the block of %llu bytes at %p on device %d", number(found.block.size),
                static_cast<void *>(found.address), device);
  return text;
}

// "bytes 90 to 109": the place of a range in its block, from the block's start.
std::string text_of_range(uintptr_t address, uint64_t size, const Blocks::Found &found) {
  const long long from = static_cast<long long>(address - reinterpret_cast<uintptr_t>(found.address));
  char text[64];
  std::snprintf(text, sizeof text, "bytes %lld to %lld", from, from + static_cast<long long>(size) - 1);
  return text;
}

bool inside(uintptr_t address, uint64_t size, const Blocks::Found &found) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(found.address);
  return address >= begin && address - begin <= found.block.size && size <= found.block.size - (address - begin);
}

} // namespace

Memory::Memory(const tb_host *host, const Options &options)
    : devices([&] {
        std::vector<std::unique_ptr<Blocks>> made;
        for (int32_t number = 0; number < options.devices; ++number)
          made.push_back(std::make_unique<Blocks>(number, options));
        return made;
      }()),
      virtual_memory(host, devices, options.isolated), pinned(host), isolated_(options.isolated) {
  if (isolated_ && options.fault_text) watch_faults(this);
}

Memory::~Memory() { unwatch_faults(this); }

const Memory::Variable *Memory::variable_at(uintptr_t address, uint64_t *into) {
  auto found = variables_.upper_bound(address);
  if (found == variables_.begin()) return nullptr;
  --found;
  *into = address - found->first;
  return *into < found->second.size ? &found->second : nullptr;
}

int32_t Memory::device_of(uintptr_t address) {
  for (size_t device = 0; device < devices.size(); ++device)
    if (devices[device]->arena().holds(address)) return static_cast<int32_t>(device);
  tb_pointer_info info = {};
  if (virtual_memory.find(reinterpret_cast<const void *>(address), &info)) return info.device;
  std::lock_guard lock(variables_mutex_);
  uint64_t into;
  const Variable *variable = variable_at(address, &into);
  return variable ? variable->device : -1;
}

bool Memory::find(const void *pointer, tb_pointer_info *out) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  for (size_t device = 0; device < devices.size(); ++device) {
    const auto found = devices[device]->find(address);
    if (!found || found->block.state != Blocks::State::live) continue;
    // A block of no bytes still has its one address.
    if (!inside(address, 1, *found) && pointer != found->address) continue;
    out->kind = TB_POINTER_DEVICE;
    out->device = static_cast<int32_t>(device);
    out->base = found->address;
    out->size = found->block.size;
    return true;
  }
  return pinned.find(pointer, out) || virtual_memory.find(pointer, out);
}

std::string Memory::check(const void *pointer, uint64_t size, Side side) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const int32_t device = device_of(address);
  const bool is_device = device >= 0 || virtual_memory.in_reservation(address);
  char text[256];
  if (is_device != (side == Side::device)) {
    std::snprintf(text, sizeof text, "%p is %s memory, but the copy's kind says it is %s memory", pointer,
                  is_device ? "device" : "host", is_device ? "host" : "device");
    return text;
  }
  if (device < 0 || !devices[static_cast<size_t>(device)]->arena().holds(address)) return {};
  const auto found = devices[static_cast<size_t>(device)]->find(address);
  if (!found) {
    std::snprintf(text, sizeof text, "%p on device %d is in no block: it was freed, or was never allocated", pointer,
                  device);
    return text;
  }
  if (found->block.state == Blocks::State::gone)
    return text_of_block(*found, device) + " was lost with its device: free it";
  if (found->block.state != Blocks::State::live) return text_of_block(*found, device) + " was freed before this call";
  if (inside(address, size, *found)) return {};
  return text_of_range(address, size, *found) + " leave " + text_of_block(*found, device);
}

Memory::Resolved Memory::resolve(const void *pointer, uint64_t size, Access access, int32_t device) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const bool write = access == Access::write;
  Resolved result;
  for (size_t place = 0; place < devices.size(); ++place) {
    Blocks &blocks = *devices[place];
    if (!blocks.arena().holds(address)) continue;
    result.pieces.push_back({blocks.inner(blocks.arena().offset_of(address)), size});
    const auto found = blocks.find(address);
    using State = Blocks::State;
    const bool good = found && inside(address, size, *found);
    const bool alive = good && (found->block.state == State::live || found->block.state == State::freed);
    if (alive) return result;
    // Poison is there to be read within the old block; nothing may be written to memory that is not the caller's.
    result.usable = good && !write && found->block.state == State::dead;
    result.problem = std::string(write ? "writes " : "reads ");
    if (found) {
      result.problem += text_of_range(address, size, *found) + " of " +
                        text_of_block(*found, static_cast<int32_t>(place)) +
                        (found->block.state == State::gone   ? ", which was lost with its device"
                         : found->block.state == State::dead ? ", which was freed before this work ran"
                                                             : ", and so leaves it");
    } else {
      char text[96];
      std::snprintf(text, sizeof text, "%llu bytes at %p on device %zu, which were freed before this work ran",
                    number(size), pointer, place);
      result.problem += text;
    }
    return result;
  }
  if (virtual_memory.in_reservation(address)) {
    result.problem = virtual_memory.resolve(address, size, write, device, &result.pieces);
    result.usable = result.problem.empty();
    return result;
  }
  // Host memory and module variables are at their own addresses.
  result.pieces.push_back({static_cast<std::byte *>(const_cast<void *>(pointer)), size});
  return result;
}

void Memory::add_variable(const void *owner, int32_t device, void *address, uint64_t size) {
  std::lock_guard lock(variables_mutex_);
  variables_[reinterpret_cast<uintptr_t>(address)] = {owner, size, device};
}

void Memory::forget_variables(const void *owner) {
  std::lock_guard lock(variables_mutex_);
  std::erase_if(variables_, [&](const auto &entry) { return entry.second.owner == owner; });
}

void Memory::open() {
  for (const auto &device : devices) device->note_function();
  std::lock_guard lock(window_mutex_);
  if (functions_++ || !isolated_) return;
  for (const auto &device : devices) device->open();
  virtual_memory.open();
}

void Memory::shut() {
  for (const auto &device : devices) device->note_function(); // a check may have come while it ran
  std::lock_guard lock(window_mutex_);
  if (--functions_ || !isolated_) return;
  for (const auto &device : devices) device->shut();
  virtual_memory.shut();
}

bool Memory::describe(uintptr_t address, char *text, size_t size) noexcept {
  for (size_t place = 0; place < devices.size(); ++place) {
    Blocks &blocks = *devices[place];
    if (!blocks.arena().holds(address)) continue;
    const auto found = blocks.try_find(address);
    if (found) {
      std::snprintf(text, size, "byte %lld of the %sblock of %llu bytes at %p on device %zu",
                    static_cast<long long>(address - reinterpret_cast<uintptr_t>(found->address)),
                    found->block.state == Blocks::State::live ? "" : "freed ", number(found->block.size),
                    static_cast<void *>(found->address), place);
    } else {
      std::snprintf(text, size, "memory of device %zu that is in no block", place);
    }
    return true;
  }
  const int32_t device = virtual_memory.try_device_at(address);
  if (device < 0) return false;
  std::snprintf(text, size, "mapped memory of device %d", device);
  return true;
}

} // namespace tb::drivers::sim

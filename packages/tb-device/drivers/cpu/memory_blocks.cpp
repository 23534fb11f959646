// memory_blocks.cpp -- blocks of device and pinned host memory.
#include "memory_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "error_text.h"

namespace tb::cpu {

namespace {

constexpr uint64_t kPage = 65536; // a multiple of every system's page

uint64_t round_up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

// `size` bytes, a multiple of kPage, at a multiple of kHugePage; NULL with errno.
void *map_huge(uint64_t size) {
  const uint64_t span = size + Memory::kHugePage;
  void *memory = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t block = round_up(start, Memory::kHugePage);
  if (block > start) munmap(memory, block - start);
  if (const uint64_t tail = start + span - (block + size)) munmap(reinterpret_cast<void *>(block + size), tail);
  madvise(reinterpret_cast<void *>(block), size, MADV_HUGEPAGE); // a refusal costs only speed
  return reinterpret_cast<void *>(block);
}

const char *kind_name(int32_t kind) { return kind == TB_POINTER_DEVICE ? "device memory" : "pinned host memory"; }

} // namespace

Memory::Blocks::iterator Memory::holding(uintptr_t address) {
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  // A block of no bytes still has its one address.
  return address - block->first < std::max<uint64_t>(block->second.size, 1) ? block : blocks_.end();
}

tb_status Memory::allocate(Device &device, uint64_t size, int32_t kind, void **out) {
  const ByteText asked(size), limit(device.budget().limit()), used(device.budget().used());
  const bool charge = kind == TB_POINTER_DEVICE;
  const bool absurd = size > (uint64_t(1) << 56); // rounding up must not overflow
  const bool huge = size >= kHugePage;
  const uint64_t whole = absurd ? size : round_up(std::max<uint64_t>(size, 1), huge ? kPage : kAlignment);
  // Charged to the alignment, as asked: the rest of the last page is the system's doing.
  const uint64_t charged = charge ? (absurd ? size : round_up(std::max<uint64_t>(size, 1), kAlignment)) : 0;
  if (charge && !device.budget().charge(charged))
    return fail(host_, TB_OUT_OF_MEMORY,
                "%s on device %d does not fit: its limit is %s and %s of it are in use. Free memory, or raise the "
                "driver's option \"memory\" (TB_CPU_MEMORY)",
                asked.text, device.number(), limit.text, used.text);
  void *memory = nullptr;
  int code = ENOMEM;
  if (!absurd) {
    errno = 0;
    memory = huge ? map_huge(whole) : std::aligned_alloc(kAlignment, whole);
    code = errno;
  }
  if (!memory) {
    device.budget().refund(charged);
    return fail_native(host_, TB_OUT_OF_MEMORY, code,
                       "the system refused %s of %s; the driver has %s in use on device %d", asked.text,
                       kind_name(kind), used.text, device.number());
  }
  try {
    std::lock_guard lock(mutex_);
    blocks_.emplace(reinterpret_cast<uintptr_t>(memory), Block{size, huge ? whole : 0, charged, &device, kind, false});
  } catch (...) {
    device.budget().refund(charged);
    huge ? static_cast<void>(munmap(memory, whole)) : std::free(memory);
    throw;
  }
  *out = memory;
  return TB_OK;
}

tb_status Memory::check_free(const Device *device, void *pointer, int32_t kind, Blocks::iterator *out) {
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end()) {
    const auto inside = holding(reinterpret_cast<uintptr_t>(pointer));
    if (inside != blocks_.end())
      return fail(host_, TB_INVALID_ARGUMENT, "%p lies inside the block at %p; free takes the start of a block",
                  pointer, reinterpret_cast<void *>(inside->first));
    return fail(host_, TB_INVALID_ARGUMENT, "%p was not allocated by this driver, or is free already", pointer);
  }
  const Block &block = found->second;
  if (block.registered)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is registered host memory: use mem_unregister_host", pointer);
  if (block.kind != kind)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is %s: use %s", pointer, kind_name(block.kind),
                block.kind == TB_POINTER_DEVICE ? "mem_free" : "mem_free_host");
  if (block.retired)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is free already: mem_free_async was called for it", pointer);
  if (device && block.device != device)
    return fail(host_, TB_INVALID_ARGUMENT, "%p belongs to device %d, not to device %d", pointer,
                block.device->number(), device->number());
  *out = found;
  return TB_OK;
}

void Memory::give_back(void *pointer, const Block &block) noexcept {
  block.mapped ? static_cast<void>(munmap(pointer, block.mapped)) : std::free(pointer);
  block.device->budget().refund(block.charged);
}

tb_status Memory::free(const Device *device, void *pointer, int32_t kind) {
  Blocks::node_type block;
  {
    std::lock_guard lock(mutex_);
    Blocks::iterator found;
    if (const tb_status status = check_free(device, pointer, kind, &found)) return status;
    block = blocks_.extract(found);
  }
  // Out of the map first: the system may hand the address out again at once.
  give_back(pointer, block.mapped());
  return TB_OK;
}

tb_status Memory::retire(const Device &device, void *pointer) {
  std::lock_guard lock(mutex_);
  Blocks::iterator found;
  if (const tb_status status = check_free(&device, pointer, TB_POINTER_DEVICE, &found)) return status;
  found->second.retired = true;
  return TB_OK;
}

void Memory::restore(void *pointer) noexcept {
  std::lock_guard lock(mutex_);
  blocks_.find(reinterpret_cast<uintptr_t>(pointer))->second.retired = false;
}

void Memory::free_retired(void *pointer) noexcept {
  Blocks::node_type block;
  {
    std::lock_guard lock(mutex_);
    block = blocks_.extract(reinterpret_cast<uintptr_t>(pointer));
  }
  give_back(pointer, block.mapped());
}

tb_status Memory::register_host(Device &device, void *pointer, uint64_t size) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(pointer);
  if (size == 0 || start + size < start)
    return fail(host_, TB_INVALID_ARGUMENT, "a range of %llu bytes at %p cannot be registered",
                static_cast<unsigned long long>(size), pointer);
  std::lock_guard lock(mutex_);
  const auto next = blocks_.lower_bound(start);
  auto other = holding(start);
  if (other == blocks_.end() && next != blocks_.end() && next->first < start + size) other = next;
  if (other != blocks_.end())
    return fail(host_, TB_ALREADY_EXISTS, "the range overlaps %s of %llu bytes at %p that the driver knows already",
                kind_name(other->second.kind), static_cast<unsigned long long>(other->second.size),
                reinterpret_cast<void *>(other->first));
  blocks_.emplace(start, Block{size, 0, 0, &device, TB_POINTER_HOST_PINNED, true});
  return TB_OK;
}

tb_status Memory::unregister_host(void *pointer) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end() || !found->second.registered)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is not the start of registered host memory", pointer);
  blocks_.erase(found);
  return TB_OK;
}

bool Memory::find(const void *pointer, tb_pointer_info *out) {
  std::lock_guard lock(mutex_);
  const auto found = holding(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end()) return false;
  out->kind = found->second.kind;
  out->device = found->second.device->number();
  out->base = reinterpret_cast<void *>(found->first);
  out->size = found->second.size;
  return true;
}

Memory::Counts Memory::counts() {
  std::lock_guard lock(mutex_);
  Counts counts = {};
  for (const auto &[address, block] : blocks_)
    if (!block.retired)
      ++(block.registered ? counts.registered : block.kind == TB_POINTER_DEVICE ? counts.device : counts.pinned);
  return counts;
}

} // namespace tb::cpu

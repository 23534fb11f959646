// Allocates, frees, registers and exports blocks.
#include "drivers/cpu/memory/memory_blocks.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "drivers/common/error_text.h"

namespace tb::drivers::cpu {

namespace {

constexpr uint64_t page_bytes = 65536; // a multiple of every system's page

uint64_t round_up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

uint64_t system_page() {
  static const uint64_t size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// The alignment of a block of device memory from the heap: it has pages of its own, since an export moves pages.
uint64_t whole_pages(uint64_t size) { return round_up(std::max<uint64_t>(size, 1), system_page()); }

// `size` bytes at a multiple of huge_page, of the file unless that is -1; NULL with errno.
void *map_huge(uint64_t size, int file) {
  const uint64_t span = size + Memory::huge_page;
  void *memory = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t block = round_up(start, Memory::huge_page);
  if (block > start) munmap(memory, block - start);
  if (const uint64_t tail = start + span - (block + size)) munmap(reinterpret_cast<void *>(block + size), tail);
  if (file >= 0 && mmap(reinterpret_cast<void *>(block), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                        0) == MAP_FAILED) {
    munmap(reinterpret_cast<void *>(block), size);
    return nullptr;
  }
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
  const bool huge = size >= huge_page;
  const uint64_t unit = huge ? page_bytes : charge ? system_page() : block_alignment;
  const uint64_t whole = absurd ? size : round_up(std::max<uint64_t>(size, 1), unit);
  // Charged to the alignment, as asked: the rest of the last page is the system's doing.
  const uint64_t charged = charge ? (absurd ? size : round_up(std::max<uint64_t>(size, 1), block_alignment)) : 0;
  if (charge && !device.budget().charge(charged))
    return fail(host_, TB_OUT_OF_MEMORY,
                "%s on device %d does not fit: its limit is %s and %s of it are in use. Free memory, or raise the "
                "driver's option \"memory\" (TB_CPU_MEMORY)",
                asked.text, device.number(), limit.text, used.text);
  void *memory = nullptr;
  int code = ENOMEM;
  if (!absurd) {
    errno = 0;
    memory = huge ? map_huge(whole, -1) : std::aligned_alloc(unit, whole);
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
    blocks_.emplace(
        reinterpret_cast<uintptr_t>(memory),
        Block{.size = size, .mapped = huge ? whole : 0, .charged = charged, .device = &device, .kind = kind});
  } catch (...) {
    device.budget().refund(charged);
    huge ? static_cast<void>(munmap(memory, whole)) : std::free(memory);
    throw;
  }
  *out = memory;
  return TB_OK;
}

tb_status Memory::check_start(const char *function, void *pointer, Blocks::iterator *out) {
  *out = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (*out != blocks_.end()) return TB_OK;
  const auto inside = holding(reinterpret_cast<uintptr_t>(pointer));
  if (inside != blocks_.end())
    return fail(host_, TB_INVALID_ARGUMENT, "%p is inside the block at %p; %s takes the start of a block", pointer,
                reinterpret_cast<void *>(inside->first), function);
  return fail(host_, TB_INVALID_ARGUMENT, "%p was not allocated by this driver, or is free already", pointer);
}

tb_status Memory::check_free(const Device *device, void *pointer, int32_t kind, Blocks::iterator *out) {
  Blocks::iterator found;
  if (const tb_status status = check_start("free", pointer, &found)) return status;
  const Block &block = found->second;
  if (block.imported)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is memory of another process: use ipc_close_memory", pointer);
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

void Memory::give_back(void *pointer, Block &block) noexcept {
  block.publication = nullptr;
  // The heap gets private pages again, as others may still map those of the file. Where the system has none, the
  // addresses are lost: better than a heap that another process writes to.
  const bool heap_is_private = !block.file || mmap(pointer, whole_pages(block.size), PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  if (block.mapped) {
    munmap(pointer, block.mapped);
  } else if (heap_is_private) {
    std::free(pointer);
  }
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

tb_status Memory::export_block(void *pointer, tb_ipc_handle *out) {
  std::lock_guard lock(mutex_); // also against a free of the block meanwhile
  Blocks::iterator found;
  if (const tb_status status = check_start("ipc_export_memory", pointer, &found)) return status;
  Block &block = found->second;
  if (block.kind != TB_POINTER_DEVICE || block.imported || block.retired)
    return fail(host_, TB_INVALID_ARGUMENT, "%p is %s: only what mem_alloc gave can be exported", pointer,
                block.imported  ? "memory of another process"
                : block.retired ? "free already"
                                : kind_name(block.kind));
  if (!block.file) {
    const uint64_t whole = block.mapped ? block.mapped : whole_pages(block.size);
    if (const tb_status status = move_into_file(host_, pointer, whole, &block.file)) return status;
    if (block.mapped) madvise(pointer, whole, MADV_HUGEPAGE);
  }
  if (!block.publication)
    if (const tb_status status =
            exports_.publish(block.file.get(), Exports::Kind::memory, block.size, &block.publication))
      return status;
  block.publication->write_handle(out);
  return TB_OK;
}

tb_status Memory::import_block(Device &device, const File &file, uint64_t size, void **out) {
  struct stat facts;
  // The file cannot shrink, so what is there now stays.
  if (fstat(file.get(), &facts) != 0 || static_cast<uint64_t>(facts.st_size) < size)
    return fail(host_, TB_INVALID_ARGUMENT, "the handle's memory is smaller than it says");
  const uint64_t whole = static_cast<uint64_t>(facts.st_size);
  void *memory = whole >= huge_page ? map_huge(whole, file.get())
                                    : mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (!memory || memory == MAP_FAILED)
    return fail_native(host_, TB_OUT_OF_MEMORY, errno, "the system gives no addresses for %s of another process",
                       ByteText(size).text);
  try {
    std::lock_guard lock(mutex_);
    // Charged where it was allocated, not here.
    blocks_.emplace(
        reinterpret_cast<uintptr_t>(memory),
        Block{.size = size, .mapped = whole, .device = &device, .kind = TB_POINTER_DEVICE, .imported = true});
  } catch (...) {
    munmap(memory, whole);
    throw;
  }
  *out = memory;
  return TB_OK;
}

tb_status Memory::close_import(void *pointer) {
  Blocks::node_type block;
  {
    std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == blocks_.end() || !found->second.imported)
      return fail(host_, TB_INVALID_ARGUMENT, "%p is not what ipc_import_memory gave, or is closed already", pointer);
    block = blocks_.extract(found);
  }
  give_back(pointer, block.mapped());
  return TB_OK;
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
  blocks_.emplace(start, Block{.size = size, .device = &device, .kind = TB_POINTER_HOST_PINNED, .registered = true});
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
      ++(block.imported                    ? counts.imported
         : block.registered                ? counts.registered
         : block.kind == TB_POINTER_DEVICE ? counts.device
                                           : counts.pinned);
  return counts;
}

} // namespace tb::drivers::cpu

// world.cpp -- the global World, the look-up of addresses, and the end of a context.
#include "world.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "capture.h"
#include "module.h"
#include "sim_cuda.h"

namespace simcuda {

thread_local std::vector<Context *> current;

World &world() {
  static World &one = *new World; // never destroyed: streams may work until the process ends
  return one;
}

World::World() : version(static_cast<int>(setting("TB_SIMCUDA_VERSION", 12080))) {
  const uint64_t count = setting("TB_SIMCUDA_DEVICES", 2), memory = setting("TB_SIMCUDA_MEMORY", 128u << 20);
  for (uint64_t i = 0; i < count && i < 8; ++i)
    devices.push_back(std::make_unique<Device>(static_cast<int>(i), memory));
  arm_by_environment();
}

void World::protect(bool accessible) {
  for (const auto &device : devices) device->arena.protect(accessible);
  for (const auto &[address, range] : ranges)
    if (range.kind == Kind::mapping || range.kind == Kind::imported) {
      const uint64_t skip = range.kind == Kind::imported ? range.offset : 0; // other mappings begin at a page boundary
      mprotect(reinterpret_cast<void *>(address - skip), range.charged,
               accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}

std::map<uintptr_t, Range>::iterator World::holding(uintptr_t address) {
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return address - found->first < found->second.size ? found : ranges.end();
}

bool World::resolve(uintptr_t address, uint64_t size, int device, bool write, std::vector<Piece> *out) {
  while (size > 0) {
    const auto found = holding(address);
    if (found == ranges.end()) return false;
    const Range &range = found->second;
    if (range.kind == Kind::mapping && !(write ? range.writers : range.readers).count(device)) return false;
    const uint64_t skip = address - found->first, part = std::min(size, range.size - skip);
    out->push_back({range.inner + skip, part});
    address += part;
    size -= part;
  }
  return true;
}

bool World::known(uintptr_t address, uint64_t size) {
  while (size > 0) {
    const auto found = holding(address);
    if (found == ranges.end()) return false;
    const uint64_t part = std::min(size, found->second.size - (address - found->first));
    address += part;
    size -= part;
  }
  return true;
}

void World::drop(std::map<uintptr_t, Range>::iterator found) {
  Range &range = found->second;
  void *const address = reinterpret_cast<void *>(found->first);
  if (range.kind == Kind::device || range.kind == Kind::pool)
    devices[static_cast<size_t>(range.device)]->arena.give(range.offset, range.charged, range.exported);
  else if (range.kind == Kind::host)
    munmap(address, range.charged);
  else if (range.kind == Kind::mapping)
    mmap(address, range.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  else if (range.kind == Kind::imported) {
    munmap(reinterpret_cast<void *>(found->first - range.offset), range.charged);
    munmap(range.inner - range.offset, range.charged);
  }
  ranges.erase(found);
}

Context *current_context(CUresult *result) {
  if (!initialised()) {
    *result = CUDA_ERROR_NOT_INITIALIZED;
  } else if (current.empty() || !current.back()) {
    *result = CUDA_ERROR_INVALID_CONTEXT;
  } else if (!current.back()->alive) {
    *result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  } else if (current.back()->failed != CUDA_SUCCESS) {
    *result = current.back()->failed;
  } else {
    *result = CUDA_SUCCESS;
    return current.back();
  }
  return nullptr;
}

std::shared_ptr<Stream> find_stream(CUstream handle, CUresult *result) {
  Context *context = current_context(result);
  if (!context) return nullptr;
  if (reinterpret_cast<uintptr_t>(handle) <= 1) // not owning, since the context outlives every use of the result
    return std::shared_ptr<Stream>(std::shared_ptr<Stream>(), context->legacy.get());
  auto found = find(world().streams, handle);
  if (!found) *result = CUDA_ERROR_INVALID_HANDLE;
  if (found && found->context->failed != CUDA_SUCCESS) {
    *result = found->context->failed;
    return nullptr;
  }
  return found;
}

std::shared_ptr<Event> find_event(CUevent handle, CUresult *result) {
  if (!current_context(result)) return nullptr;
  auto found = find(world().events, handle);
  if (!found) *result = CUDA_ERROR_INVALID_HANDLE;
  return found;
}

CUresult drain(Context &context, Lock &lock) {
  const auto queues = context.queues;
  std::vector<uint64_t> points;
  for (const auto &queue : queues) points.push_back(queue->last());
  lock.unlock();
  for (size_t i = 0; i < queues.size(); ++i) queues[i]->wait(points[i]);
  lock.lock();
  return context.failed;
}

void destroy_context(Context &context, Lock &lock) {
  World &all = world();
  for (const auto &queue : context.queues) queue->close();
  drain(context, lock);
  const auto queues = std::move(context.queues);
  context.queues.clear();
  lock.unlock();
  for (const auto &queue : queues) queue->join();
  lock.lock();
  const auto of_context = [&](const auto &one) { return one.second->context == &context; };
  all.abandoned += std::erase_if(all.streams, of_context) + std::erase_if(all.events, of_context) +
                   std::erase_if(all.modules, of_context) + std::erase_if(all.executables, of_context);
  std::erase_if(all.kernels, of_context);
  for (auto next = all.ranges.begin(); next != all.ranges.end();) {
    const auto range = next++;
    const Kind kind = range->second.kind;
    if (range->second.device != context.device || kind == Kind::mapping || kind == Kind::variable) continue;
    ++all.abandoned;
    if (kind == Kind::registered)
      all.ranges.erase(range);
    else
      all.drop(range);
  }
  context.legacy.reset();
  context.captures.clear();
  context.peers.clear();
  context.alive = false;
  context.failed = CUDA_SUCCESS;
  for (const auto &device : all.devices) device->context.peers.erase(&context);
}

} // namespace simcuda

using namespace simcuda;

extern "C" uint64_t tb_simcuda_live(char *text, uint64_t size) {
  World &all = world();
  Lock lock(all.mutex);
  uint64_t variables = 0, contexts = 0, total = 0;
  for (const auto &[address, range] : all.ranges) variables += range.kind == Kind::variable;
  for (const auto &device : all.devices) contexts += device->context.retained;
  struct Count {
    const char *what;
    uint64_t count;
  };
  std::string listed;
  for (const Count &kind :
       {Count{"contexts", contexts}, Count{"streams", all.streams.size()}, Count{"events", all.events.size()},
        Count{"ranges of memory", all.ranges.size() - variables}, Count{"reservations", all.reservations.size()},
        Count{"physicals", all.physicals.size()}, Count{"modules", all.modules.size()},
        Count{"graphs", all.graphs.size()}, Count{"executables", all.executables.size()},
        Count{"abandoned", all.abandoned}}) {
    total += kind.count;
    if (kind.count) listed += (listed.empty() ? "" : ", ") + std::to_string(kind.count) + " " + kind.what;
  }
  if (text) std::snprintf(text, size, "%s", listed.c_str());
  return total;
}

extern "C" void tb_simcuda_break(int device, int code) {
  world().devices[static_cast<size_t>(device)]->context.failed = code;
}

// ipc_api.cpp -- memory and events of other processes, which are opened through the exporting process's files in /proc.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <string>

#include "shared_record.h"
#include "world.h"

namespace simcuda {
namespace {

constexpr uint64_t kMemory = 0x4d4d4953, kEvent = 0x56454953;

// The contents of a handle's 64 bytes.
struct Shown {
  uint64_t kind, inode, offset, size;
  int process, file, device, reserved;
};

template <class Handle> Handle handle_of(const Shown &shown) {
  Handle handle{};
  static_assert(sizeof shown <= sizeof handle);
  std::memcpy(&handle, &shown, sizeof shown);
  return handle;
}

uint64_t inode_of(int file) {
  struct stat facts{};
  return fstat(file, &facts) == 0 ? facts.st_ino : 0;
}

// Opens another process's file; -1 if it does not exist any more.
int open_shown(const Shown &shown) {
  const int file = ::open(("/proc/" + std::to_string(shown.process) + "/fd/" + std::to_string(shown.file)).c_str(),
                          O_RDWR | O_CLOEXEC);
  if (file >= 0 && inode_of(file) == shown.inode) return file;
  if (file >= 0) close(file);
  return -1;
}

} // namespace

struct SharedRecord::Counters {
  std::atomic<uint32_t> recorded, done;
};

std::shared_ptr<SharedRecord> SharedRecord::create() {
  const int file = memfd_create("simcuda-event", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Counters)) != 0) return nullptr;
  return open(0, file);
}

std::shared_ptr<SharedRecord> SharedRecord::open(int, int file) {
  auto record = std::make_shared<SharedRecord>();
  record->file_ = file;
  void *mapped = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return nullptr;
  record->counters_ = static_cast<Counters *>(mapped);
  return record;
}

SharedRecord::~SharedRecord() {
  if (counters_) munmap(counters_, sizeof(Counters));
  if (file_ >= 0) close(file_);
}

std::function<void()> SharedRecord::begin_record() {
  const uint32_t number = ++counters_->recorded;
  return [self = shared_from_this(), number] {
    uint32_t before = self->counters_->done;
    while (before < number && !self->counters_->done.compare_exchange_weak(before, number)) {
    }
    syscall(SYS_futex, &self->counters_->done, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  };
}

bool SharedRecord::passed() const { return counters_->done >= counters_->recorded; }

std::function<void()> SharedRecord::waiter() {
  return [self = shared_from_this(), number = counters_->recorded.load()] {
    for (uint32_t done; (done = self->counters_->done) < number;)
      syscall(SYS_futex, &self->counters_->done, FUTEX_WAIT, done, nullptr, nullptr, 0);
  };
}

} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address) {
  return call<"cuIpcGetMemHandle">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = all.ranges.find(address);
    if (!out || found == all.ranges.end() || found->second.kind != Kind::device) return CUDA_ERROR_INVALID_VALUE;
    Range &range = found->second;
    range.exported = true; // its pages are not allocated again after it is freed
    const int file = all.devices[static_cast<size_t>(range.device)]->arena.file();
    *out = handle_of<CUipcMemHandle>(
        {kMemory, inode_of(file), range.offset, range.charged, getpid(), file, range.device, 0});
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
  return call<"cuIpcOpenMemHandle_v2">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    Shown shown;
    std::memcpy(&shown, &handle, sizeof shown);
    if (!out || shown.kind != kMemory || flags > 1 || shown.device != context->device) return CUDA_ERROR_INVALID_VALUE;
    if (shown.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    const int file = open_shown(shown);
    if (file < 0) return CUDA_ERROR_INVALID_VALUE;
    // Offsets may be inside a page, so the mapping may have to begin earlier.
    const uint64_t begin = shown.offset / 4096 * 4096, skip = shown.offset - begin, size = skip + shown.size;
    const int access = all.windows ? PROT_READ | PROT_WRITE : PROT_NONE;
    void *inner = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(begin));
    void *outer = mmap(nullptr, size, access, MAP_SHARED, file, static_cast<off_t>(begin));
    close(file);
    if (inner == MAP_FAILED || outer == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
    *out = reinterpret_cast<uintptr_t>(outer) + skip;
    all.ranges[*out] = {Kind::imported,
                        shown.size,
                        context->device,
                        static_cast<std::byte *>(inner) + skip,
                        skip,
                        size,
                        nullptr,
                        {},
                        {}};
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return call<"cuIpcCloseMemHandle">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    const auto found = all.ranges.find(address);
    if (found == all.ranges.end() || found->second.kind != Kind::imported) return CUDA_ERROR_INVALID_VALUE;
    all.drop(found);
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent handle) {
  return call<"cuIpcGetEventHandle">([&]() -> CUresult {
    Lock lock(world().mutex);
    CUresult result;
    const auto event = find_event(handle, &result);
    if (!event) return result;
    if (!out || !event->shared) return CUDA_ERROR_INVALID_VALUE;
    const int file = event->shared->file();
    *out = handle_of<CUipcEventHandle>({kEvent, inode_of(file), 0, 0, getpid(), file, event->context->device, 0});
    return CUDA_SUCCESS;
  });
}

extern "C" CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
  return call<"cuIpcOpenEventHandle">([&]() -> CUresult {
    World &all = world();
    Lock lock(all.mutex);
    CUresult result;
    Context *context = current_context(&result);
    if (!context) return result;
    Shown shown;
    std::memcpy(&shown, &handle, sizeof shown);
    if (!out || shown.kind != kEvent) return CUDA_ERROR_INVALID_VALUE;
    const int file = open_shown(shown);
    if (file < 0) return CUDA_ERROR_INVALID_VALUE;
    auto event = std::make_shared<Event>();
    event->context = context;
    event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    event->shared = SharedRecord::open(shown.process, file);
    all.events[event.get()] = event;
    *out = reinterpret_cast<CUevent>(event.get());
    return CUDA_SUCCESS;
  });
}

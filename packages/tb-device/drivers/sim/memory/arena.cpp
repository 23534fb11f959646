// Maps a device's memory twice.
#include "drivers/sim/memory/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace tb::drivers::sim {

namespace {

constexpr uint64_t unit_bytes = uint64_t(2) << 20;
constexpr uint64_t page_bytes = 65536; // a multiple of every system's page
// Addresses for each byte of capacity: room for the quarantine and against fragmentation, and they cost nothing.
constexpr uint64_t addresses = 4;

uint64_t round_up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

[[noreturn]] void refuse(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

std::byte *map(int file, uint64_t size, int protection) {
  void *memory = mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte *>(memory);
}

} // namespace

Arena::Arena(uint64_t capacity, bool isolated)
    : blocks_(round_up(addresses * capacity, unit_bytes) + 16 * unit_bytes),
      size_(blocks_ + round_up(addresses * capacity, unit_bytes) + 16 * unit_bytes), isolated_(isolated) {
  file_ = memfd_create("tb-sim-device", MFD_CLOEXEC);
  if (file_ < 0) refuse("no file in memory for a device's memory");
  if (ftruncate(file_, static_cast<off_t>(size_)) == 0 &&
      (outer_ = map(file_, blocks_, isolated ? PROT_NONE : PROT_READ | PROT_WRITE)) &&
      (inner_ = map(file_, size_, PROT_READ | PROT_WRITE)))
    return;
  const int code = errno;
  if (outer_) munmap(outer_, blocks_);
  close(file_);
  errno = code;
  refuse("no range of addresses for a device's memory");
}

Arena::~Arena() {
  munmap(outer_, blocks_);
  munmap(inner_, size_);
  close(file_);
}

void Arena::punch(uint64_t begin, uint64_t size) noexcept {
  const uint64_t first = round_up(begin, page_bytes), last = (begin + size) / page_bytes * page_bytes;
  if (first >= last) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
            static_cast<off_t>(last - first));
}

void Arena::open(uint64_t end) noexcept {
  if (isolated_ && end) mprotect(outer_, std::min(round_up(end, page_bytes), blocks_), PROT_READ | PROT_WRITE);
}

void Arena::shut(uint64_t end) noexcept {
  if (isolated_ && end) mprotect(outer_, std::min(round_up(end, page_bytes), blocks_), PROT_NONE);
}

} // namespace tb::drivers::sim

// Files in memory that another process can map, and moving the pages of private memory into one.
#pragma once

#include <cstdint>
#include <utility>

#include "tb/driver.h"

namespace tb::drivers::cpu {

// An owned descriptor.
class File {
public:
  File() = default;
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  File(File &&other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File &operator=(File other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();
  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }

private:
  int descriptor_ = -1;
};

// Makes a file of `size` bytes that is sealed against shrinking, so a mapping never loses its pages. Fails with a text.
tb_status make_shared_file(const tb_host *host, uint64_t size, File *out);

// Whether this system lets move_into_file work (userfaultfd with write protection; some containers forbid it).
bool can_move_pages() noexcept;

// Puts the whole pages of private anonymous memory at `address` into a file, which then backs the same addresses.
// Other threads may read and write meanwhile: a writer waits, in the kernel, for as long as the copy takes; only a
// system call that writes there at that moment (read(2) into it) may fail with EFAULT. Fails with a text and no change.
tb_status move_into_file(const tb_host *host, void *address, uint64_t size, File *out);

} // namespace tb::drivers::cpu

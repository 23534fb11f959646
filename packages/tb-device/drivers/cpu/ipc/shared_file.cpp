// Makes files in memory and moves pages into them.
#include "drivers/cpu/ipc/shared_file.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "drivers/common/error_text.h"

#ifndef MADV_POPULATE_READ // Linux 5.14
#define MADV_POPULATE_READ 22
#endif
#ifndef UFFD_USER_MODE_ONLY // Linux 5.11
#define UFFD_USER_MODE_ONLY 1
#endif

namespace tb::drivers::cpu {

namespace {

File open_userfault() noexcept {
  File file(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
  // Without the privilege: writes by system calls fail instead of waiting.
  if (!file) file = File(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!file) return file;
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (ioctl(file.get(), UFFDIO_API, &api) != 0) return File();
  return file;
}

bool write_all(int file, const char *bytes, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    const long part = syscall(SYS_pwrite64, file, bytes + done, size - done, done);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) return false;
    done += static_cast<uint64_t>(part);
  }
  return true;
}

// Step by step; errno tells which went wrong. Plain system calls: writers are held off in the kernel, which the thread
// sanitizer's own pwrite and mmap do not know.
bool protect_and_move(int userfault, void *address, uint64_t size, int file) {
  uffdio_register range = {};
  range.range.start = reinterpret_cast<uintptr_t>(address);
  range.range.len = size;
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(userfault, UFFDIO_REGISTER, &range) != 0) return false;
  // A page that is not there cannot be protected, so a first write to it would be lost.
  if (madvise(address, size, MADV_POPULATE_READ) != 0) return false;
  uffdio_writeprotect protect = {};
  protect.range = range.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  if (ioctl(userfault, UFFDIO_WRITEPROTECT, &protect) != 0) return false;
  if (!write_all(file, static_cast<const char *>(address), size)) return false;
  // Writers that wait wake up when the descriptor is closed, and write to the file's pages. The offset is passed in
  // memory: half of an int argument would be undefined.
  return syscall(SYS_mmap, address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, off_t{0}) != -1;
}

} // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

tb_status make_shared_file(const tb_host *host, uint64_t size, File *out) {
  File file(memfd_create("tb-cpu-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail_native(host, TB_UNAVAILABLE, errno, "the system gives no memfd (%s)", std::strerror(errno));
  if (ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_native(host, TB_OUT_OF_MEMORY, errno, "the system refused %s of shared memory (%s)",
                       ByteText(size).text, std::strerror(errno));
  *out = std::move(file);
  return TB_OK;
}

bool can_move_pages() noexcept {
  static const bool can = static_cast<bool>(open_userfault());
  return can;
}

tb_status move_into_file(const tb_host *host, void *address, uint64_t size, File *out) {
  File file;
  if (const tb_status status = make_shared_file(host, size, &file)) return status;
  const File userfault = open_userfault();
  if (!userfault || !protect_and_move(userfault.get(), address, size, file.get())) {
    const int code = errno;
    return fail_native(host, TB_UNAVAILABLE, code, "the system refused to move %s at %p into shared memory (%s)",
                       ByteText(size).text, address, std::strerror(code));
  }
  *out = std::move(file);
  return TB_OK;
}

} // namespace tb::drivers::cpu

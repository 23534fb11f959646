// Reads and writes the shared page of an event.
#include "drivers/cpu/ipc/shared_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "drivers/common/error_text.h"
#include "drivers/common/futex.h"

namespace tb::drivers::cpu {

struct SharedEvent::Page {
  std::atomic<uint64_t> last_record;
  std::atomic<uint32_t> wakes;              // what importers sleep on
  std::atomic<uint32_t> sleepers;           // stays too high when one is killed: costs a system call a record
  std::atomic<uint64_t> completed[pending]; // by number modulo pending, the newest that is complete
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");

namespace {

constexpr uint64_t page_bytes = 65536; // a whole page on every system
constexpr timespec look_at_owner = {0, 100'000'000};

struct flock whole_file(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

void *map_page(int file) {
  void *memory = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

} // namespace

tb_status SharedEvent::create(const tb_host *host, std::shared_ptr<SharedEvent> *out) {
  static_assert(sizeof(Page) <= page_bytes);
  File file;
  if (const tb_status status = make_shared_file(host, page_bytes, &file)) return status;
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(file.get(), F_OFD_SETLK, &lock) != 0)
    return fail_native(host, TB_UNAVAILABLE, errno, "the system gives no file lock (%s)", std::strerror(errno));
  void *memory = map_page(file.get());
  if (!memory) return fail_native(host, TB_OUT_OF_MEMORY, errno, "the system gives no memory for a shared event");
  out->reset(new SharedEvent(host, std::move(file), new (memory) Page{}));
  return TB_OK;
}

tb_status SharedEvent::open(const tb_host *host, File file, uint64_t size, std::shared_ptr<SharedEvent> *out) {
  if (size != page_bytes) return fail(host, TB_INVALID_ARGUMENT, "the handle's event is of another driver version");
  void *memory = map_page(file.get());
  if (!memory) return fail_native(host, TB_OUT_OF_MEMORY, errno, "the system gives no memory for a shared event");
  out->reset(new SharedEvent(host, std::move(file), static_cast<Page *>(memory)));
  return TB_OK;
}

SharedEvent::~SharedEvent() { munmap(page_, page_bytes); }

tb_status SharedEvent::export_to(Exports &exports, tb_ipc_handle *out) {
  std::lock_guard lock(export_mutex_);
  if (!publication_) {
    if (const tb_status status = exports.publish(file_.get(), Exports::Kind::event, page_bytes, &publication_))
      return status;
  }
  publication_->write_handle(out);
  return TB_OK;
}

tb_status SharedEvent::next_number(uint64_t *out) {
  const uint64_t number = page_->last_record.load() + 1;
  if (number > pending && !done(number - pending))
    return fail(host_, TB_UNAVAILABLE,
                "%llu records of the shared event are pending: synchronise before recording it again",
                static_cast<unsigned long long>(pending));
  *out = number;
  return TB_OK;
}

void SharedEvent::publish_record(uint64_t number) noexcept { page_->last_record.store(number); }

void SharedEvent::complete(uint64_t number) noexcept {
  page_->completed[number % pending].store(number);
  page_->wakes.fetch_add(1);
  if (page_->sleepers.load() != 0) shared_futex_wake_all(page_->wakes);
}

uint64_t SharedEvent::last_record() const noexcept { return page_->last_record.load(); }

bool SharedEvent::done(uint64_t number) const noexcept {
  return number == 0 || page_->completed[number % pending].load() >= number;
}

bool SharedEvent::owner_lives() const noexcept {
  struct flock lock = whole_file(F_WRLCK);
  return fcntl(file_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

tb_status SharedEvent::ask(uint64_t number, bool wait) const noexcept {
  for (;;) {
    const uint32_t wakes = page_->wakes.load();
    if (done(number)) return TB_OK;
    if (!owner_lives()) return done(number) ? TB_OK : TB_DATA_LOSS; // its last store may have come in between
    if (!wait) return TB_NOT_READY;
    page_->sleepers.fetch_add(1);
    shared_futex_wait(page_->wakes, wakes, look_at_owner);
    page_->sleepers.fetch_sub(1);
  }
}

} // namespace tb::drivers::cpu

// Words on the device, and waits that cannot hang.
#include "contract/support/probe.h"

#include <sys/resource.h>

#include <cstdio>

namespace tb::contract {

void set_word(Kit &kit, tb_stream *stream, void *dst, uint32_t value, int32_t device) {
  CHECK_OK(kit.api().mem_set(kit.self(), device, stream, dst, value, 4, 1));
}

void copy_word(Kit &kit, tb_stream *stream, void *dst, const void *src, int32_t device) {
  CHECK_OK(kit.api().mem_copy(kit.self(), device, stream, dst, src, 4, TB_COPY_DEVICE_TO_DEVICE));
}

uint32_t read_word(Kit &kit, const void *src, int32_t device) { return read_words(kit, src, 1, device)[0]; }

std::vector<uint32_t> read_words(Kit &kit, const void *src, size_t count, int32_t device) {
  std::vector<uint32_t> words(count);
  kit.to_host(words.data(), src, 4 * count, device);
  return words;
}

void write_words(Kit &kit, void *dst, const std::vector<uint32_t> &words, int32_t device) {
  kit.to_device(dst, words.data(), 4 * words.size(), device);
}

OpensLater::OpensLater(Gate &gate, double seconds) {
  thread_ = std::thread([this, &gate, seconds] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stopped_; })) return;
    opened_ = true;
    gate.open();
  });
}

OpensLater::~OpensLater() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void check_held(Kit &kit, tb_stream *stream, std::source_location where) {
  const double until = seconds_now() + 0.02;
  do {
    const tb_status status = kit.api().stream_query(kit.self(), stream);
    count_check();
    if (status != TB_NOT_READY)
      fail_check(where.file_name(), static_cast<int>(where.line()),
                 "work ran before what it had to wait for: the stream answers " + shown(status) + ", not 32");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (seconds_now() < until);
}

void expect_a_crash() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (!std::freopen("/dev/null", "w", stderr)) throw Failed("/dev/null does not open");
}

} // namespace tb::contract

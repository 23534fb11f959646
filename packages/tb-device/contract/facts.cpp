// What the system says about this process (Linux).
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "contract/kit.h"

namespace tb::contract {
namespace {

// Without "." and "..", and without the descriptor that reads it.
int entries(const char *folder, int own) {
  std::unique_ptr<DIR, int (*)(DIR *)> opened(opendir(folder), closedir);
  if (!opened) throw Failed(std::string("cannot read ") + folder + ": this case needs /proc");
  int count = 0;
  while (readdir(opened.get())) ++count;
  return count - 2 - own;
}

double clock_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace

uint64_t resident_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  throw NotOffered("the sanitizer keeps freed memory, so the process's size says nothing");
#endif
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen("/proc/self/statm", "r"), std::fclose);
  unsigned long long total = 0, resident = 0;
  if (!file || std::fscanf(file.get(), "%llu %llu", &total, &resident) != 2)
    throw Failed("cannot read /proc/self/statm, which this case needs");
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

int open_descriptors() { return entries("/proc/self/fd", 1); }
int thread_count() { return entries("/proc/self/task", 0); }
double seconds_now() { return clock_seconds(CLOCK_MONOTONIC); }
double cpu_seconds() { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }

int threads_beyond(int most) {
  const double until = seconds_now() + 2;
  while (thread_count() > most && seconds_now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return std::max(thread_count() - most, 0);
}

} // namespace tb::contract

// Asks the system about the machine.
#include "drivers/common/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tb::drivers {

uint64_t total_memory() noexcept {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t available_memory() noexcept {
  uint64_t available = total_memory();
  std::FILE *file = std::fopen("/proc/meminfo", "re");
  if (!file) return available;
  char line[128];
  unsigned long long kibibytes = 0;
  while (std::fgets(line, sizeof line, file))
    if (std::sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1)
      available = std::min<uint64_t>(available, kibibytes << 10);
  std::fclose(file);
  return available;
}

uint32_t usable_processors() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return static_cast<uint32_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L)); // more processors than cpu_set_t holds
}

void processor_name(char *out, size_t size) noexcept {
  std::snprintf(out, size, "CPU");
  std::FILE *file = std::fopen("/proc/cpuinfo", "re");
  if (!file) return;
  char line[256];
  while (std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, "model name", 10) != 0) continue;
    const char *value = std::strchr(line, ':');
    if (!value) continue;
    value += std::strspn(value, ": \t");
    std::snprintf(out, size, "%.*s", static_cast<int>(std::strcspn(value, "\n")), value);
    break;
  }
  std::fclose(file);
}

const char *processor_architecture() noexcept {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__riscv)
  return "riscv";
#else
  return "unknown";
#endif
}

uint64_t local_processes(uint64_t most, uint64_t otherwise) noexcept {
  const char *text = std::getenv("LOCAL_WORLD_SIZE");
  if (!text) return otherwise;
  const char *end = text + std::strlen(text);
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text, end, number);
  return error == std::errc() && rest == end && number >= 1 && number <= most ? number : otherwise;
}

} // namespace tb::drivers

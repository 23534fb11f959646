// Facts about the machine on which the process runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tb::drivers {

uint64_t total_memory() noexcept;      // bytes
uint32_t usable_processors() noexcept; // on which this process may run
// "AMD EPYC 7B13", or "CPU" if the system gives no name.
void processor_name(char *out, size_t size) noexcept;
const char *processor_architecture() noexcept; // "x86-64", "aarch64"

} // namespace tb::drivers

// Facts about the machine the process runs on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tb::cpu {

uint64_t total_memory() noexcept;      // bytes
uint32_t usable_processors() noexcept; // that this process may run on
// "AMD EPYC 7B13"; "CPU" where the system does not say.
void processor_name(char *out, size_t size) noexcept;
const char *processor_architecture() noexcept; // "x86-64", "aarch64"

} // namespace tb::cpu

// Facts about the machine on which the process runs, and about the processes that run there with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tb::drivers {

uint64_t total_memory() noexcept;      // bytes
uint64_t available_memory() noexcept;  // bytes that programs could take now; all of it if the system does not say
uint32_t usable_processors() noexcept; // on which this process may run
// "AMD EPYC 7B13", or "CPU" if the system gives no name.
void processor_name(char *out, size_t size) noexcept;
const char *processor_architecture() noexcept; // "x86-64", "aarch64"
// How many processes torchrun started on this machine, this one included: each uses a device of its own, that of its
// LOCAL_RANK. `otherwise` if torchrun did not start this process, or started more than `most`.
uint64_t local_processes(uint64_t most, uint64_t otherwise) noexcept;

} // namespace tb::drivers

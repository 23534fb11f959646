// Says on stderr which device memory the host touched, before the process's own handler of the fault runs.
#pragma once

namespace tb::drivers::sim {

class Memory;

// The first registration installs the handler; the last one removes it, unless another handler was installed over it.
void watch_faults(Memory *memory);
void unwatch_faults(Memory *memory) noexcept;

} // namespace tb::drivers::sim

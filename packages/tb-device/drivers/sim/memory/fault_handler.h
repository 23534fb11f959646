// Says on stderr which device memory the host touched, before the process's own handler of the fault runs.
#pragma once

namespace tb::drivers::sim {

class Memory;

// The first one installs the handler; the last one to go takes it away, if nobody installed another over it.
void watch_faults(Memory *memory);
void unwatch_faults(Memory *memory) noexcept;

} // namespace tb::drivers::sim

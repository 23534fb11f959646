// Where the threads of a new OpenMP team begin to run.
//
// A scheduler may start a new thread on the processor of the thread that made it, which waits for it by spinning, for
// some milliseconds: until the scheduler looks again, 4 to 8 ms later, both share that processor and others idle. So did
// virtual machines of 2 processors with each new team, which a worker makes whenever it was idle before.
#pragma once
#include <cstdint>
#include <utility>

namespace tb {

// Before the calling thread uses a team of so many threads. Where some of them are new, makes them go elsewhere.
void spread_team(int threads);

// Teams so far of which some threads were new, and how many threads had to go elsewhere.
std::pair<int64_t, int64_t> spread_teams();

} // namespace tb

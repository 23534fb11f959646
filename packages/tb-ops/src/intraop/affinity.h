// The processors on which new OpenMP threads begin to run.
//
// A scheduler may start a new thread on the processor of the thread that made it, which spins until the new one has begun.
// Until the scheduler looks again, 4 to 8 ms later, both share that processor while others are idle. Virtual machines of 2
// processors do so whenever OpenMP makes threads, which it does for each worker that was idle before.
#pragma once
#include <cstdint>
#include <utility>

namespace tb::ops {

// Before the calling thread uses so many threads. If some of them are new, moves them to other processors.
void place_new_threads(int threads);

// Moves those of the calling thread's OpenMP threads that are on its processor to another one. If the host ran meanwhile, a
// scheduler may have put two of them on one processor, where each kernel then takes milliseconds. With more than 8 threads
// nothing is done: few of them share a processor, and each costs two system calls.
void separate_threads(int threads);

// How many times so far some threads were new, and how many threads had to move.
std::pair<int64_t, int64_t> thread_starts();

} // namespace tb::ops

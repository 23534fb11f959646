// pairs.h -- the time of a cached allocation and its free.
#pragma once

#include <cstdint>

namespace tb::allocator {

// Nanoseconds of a pair, per thread: the best of many short runs for one thread, the mean for several, which all use one
// allocator, each with a stream of its own. history: events remembered, 0 for none.
double pair_nanoseconds(uint64_t size, uint32_t threads, uint64_t history);

} // namespace tb::allocator

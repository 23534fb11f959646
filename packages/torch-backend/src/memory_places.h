// memory_places.h -- numbers for the places in Python at which memory is allocated and freed, for the memory history.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tb::backend {

// Which events get a place.
enum class RecordPlaces : int { none, allocations, all };
// Forgets the places so far.
void record_places(RecordPlaces which);
// The (code, instruction) of the place's frames, innermost first; empty for an unknown number.
std::vector<std::pair<uintptr_t, uintptr_t>> frames_of_place(uint64_t number);

} // namespace tb::backend

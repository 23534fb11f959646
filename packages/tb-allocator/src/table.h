// table.h -- the heaps of the process behind the C table that other components import.
#pragma once

#include "tb/component.h"

namespace tb {

extern const tb_allocator_table allocator_table;
extern const tb_export allocator_export;

class Heap;
// A device's heap, made where there is none yet; device -1: that of pinned memory.
tb_status heap_for(int32_t device, Heap **out);

} // namespace tb

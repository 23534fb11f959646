// memory_stats.h -- a heap's statistics for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "heap/heap.h"

namespace tb::allocator {

// PyTorch's flat keys.
nanobind::dict as_dict(const tb_allocator_statistics &all);

inline nanobind::dict statistics_of(Heap &heap) {
  tb_allocator_statistics all{};
  heap.statistics(&all);
  return as_dict(all);
}

} // namespace tb::allocator

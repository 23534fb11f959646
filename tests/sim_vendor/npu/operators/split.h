// split.h -- divides a tensor's dimensions: those of a row, and the others, which number the rows.
#pragma once

#include "plan.h"

namespace sim {

struct Split {
  Dims order, kept; // the dimensions with those of a row last; the shape of a result without the row's dimensions
  int64_t rows = 1, length = 1;
  Split(const Dims &dims, const Dims &along, bool keep = false);
};

inline uint64_t row_workspace(const Split &split) { return 512 + static_cast<uint64_t>(split.rows) * sizeof(float); }

} // namespace sim

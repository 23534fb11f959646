// split.h -- tensors as rows: some dimensions are worked through, one row of them for each place in the others.
#pragma once

#include "plan.h"

namespace sim {

struct Split {
  Dims order, kept; // the others, then those of a row; the shape that is left
  int64_t rows = 1, length = 1;
  Split(const Dims &dims, const Dims &along, bool keep = false);
};

inline uint64_t row_workspace(const Split &split) { return 512 + static_cast<uint64_t>(split.rows) * sizeof(float); }

} // namespace sim

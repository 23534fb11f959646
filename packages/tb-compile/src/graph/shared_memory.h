// The memory of a device's graphs: they share it, so their launches run one after another.
#pragma once
#include <cstdint>

#include "tb/component.h"

namespace tb {

// Held while one graph is launched. Work of the stream comes after all that was queued before on the stream of the
// launch before, be it that launch or what reads its results.
class Turn {
public:
  Turn(int32_t device, tb_stream *stream);
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
};

// Makes all that is queued on `stream` from now on wait for what is queued on `earlier`.
void wait_stream(int32_t device, tb_stream *stream, tb_stream *earlier);

// The number of the pool that captures of this device take their memory from.
uint64_t graph_pool(int32_t device);

} // namespace tb

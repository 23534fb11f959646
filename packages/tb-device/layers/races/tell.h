// What a thread does while it calls the layer.
#pragma once

#include "tb/races.h"

namespace tb::layers {

// Of the operator that the thread is in, as tb_races_api.enter has it.
inline thread_local constinit tb_races_scope race_scope{nullptr, 0, 0};
// How many pieces of a stream's own work, or waits that may run such work, the thread is in.
inline thread_local constinit uint32_t inside_work = 0;

class InsideWork {
public:
  InsideWork() { ++inside_work; }
  ~InsideWork() { --inside_work; }
  InsideWork(const InsideWork &) = delete;
  InsideWork &operator=(const InsideWork &) = delete;
};

} // namespace tb::layers

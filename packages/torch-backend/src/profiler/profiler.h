// profiler.h -- registers tb with torch.profiler. Each function runs once and uses no device.
#pragma once

namespace tb::backend {

void register_kineto_profiler(); // kineto.cpp
void register_profiler_stubs();  // stubs.cpp

} // namespace tb::backend

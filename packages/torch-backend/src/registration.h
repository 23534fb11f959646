// registration.h -- the functions that register the backend with c10 and ATen, one for each file. Each runs once, uses
// no device, and registers objects that are never destroyed, as c10 requires.
#pragma once

namespace tb::backend {

void register_guard();            // guard.cpp
void register_device_allocator(); // device_allocator.cpp
void register_host_allocator();   // host_allocator.cpp
void register_graph();            // graph.cpp
void register_hooks();            // hooks.cpp
void register_shallow_copy();     // shallow_copy.cpp
void register_first_use();        // first_use.cpp
void register_kineto_profiler();  // profiler/kineto.cpp
void register_profiler_stubs();   // profiler/stubs.cpp

// Takes back what register_first_use() registered: from now on PrivateUse1 has kernels of its own.
void unregister_first_use();

} // namespace tb::backend

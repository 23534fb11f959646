// registration.h -- what core.cpp registers with c10 and ATen, one function a file. Each runs once, touches no device
// and registers objects that live for ever, as c10 asks.
#pragma once

namespace tb {

void register_guard();            // guard.cpp
void register_device_allocator(); // device_allocator.cpp
void register_host_allocator();   // host_allocator.cpp
void register_graph();            // graph.cpp
void register_hooks();            // hooks.cpp
void register_shallow_copy();     // shallow_copy.cpp

} // namespace tb

// TB_LAUNCH_BLOCKING=1: each launch waits for its end, so that a failure is raised by the call that caused it.
#pragma once

namespace tb::ops {

// Throws c10::Error if the variable is neither 0 nor 1.
bool launch_blocking();

// Once, after open(): with TB_LAUNCH_BLOCKING=1 each commit of a closure waits for its stream, except in a capture.
void block_launches();

} // namespace tb::ops

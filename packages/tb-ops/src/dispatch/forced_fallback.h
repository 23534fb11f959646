// Fallbacks that the user asks for. The CPU runs the operator, counted, although the device has a kernel. This helps to
// find a kernel that computes wrongly.
#pragma once
#include <string>
#include <vector>

namespace tb::ops {

// Forces the fallback until release_fallback() has been called as often as force_fallback(). No other thread may call
// the operator during either call. force_fallback() throws c10::ValueError if the operator does not exist, and
// c10::NotImplementedError if the CPU cannot run it.
void force_fallback(const std::string &name, const std::string &overload);
void release_fallback(const std::string &name, const std::string &overload);
std::vector<std::string> forced_fallbacks();
bool is_forced(const char *name);

} // namespace tb::ops

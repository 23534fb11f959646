// Fallbacks that the user asks for: the CPU runs the operator, counted, although it has a kernel. For finding the kernel that
// computes wrongly.
#pragma once
#include <string>
#include <vector>

namespace tb::ops {

// Until as many releases as forces. No other thread may be calling the operator meanwhile. Throws c10::ValueError if it does
// not exist, c10::NotImplementedError if the CPU cannot run it.
void force_fallback(const std::string &name, const std::string &overload);
void release_fallback(const std::string &name, const std::string &overload);
std::vector<std::string> forced_fallbacks();
bool is_forced(const char *name);

} // namespace tb::ops

// The lines of call sites in the texts of failures, and where Python is now.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "python_call_site.h"

namespace tb::ops {

// Replaces an encoded call site in a text of `size` bytes by the line that the namer gives for the frames, or by nothing.
using CallSiteNamer = std::string (*)(const std::vector<PythonCallSite::Frame> &frames);
void set_call_site_namer(CallSiteNamer namer);
void decode_call_site(char *text, uint64_t size);

// Where Python is now: the line of the user's code ("" when unknown), and the whole stack, innermost frame first.
struct Origin {
  std::string where;
  std::vector<std::string> stack;
};
// `find` is called from any thread, without locks of tb-ops.
void set_origin_finder(Origin (*find)());
Origin find_origin();

} // namespace tb::ops

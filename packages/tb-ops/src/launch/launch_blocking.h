// TB_LAUNCH_BLOCKING=1: each launch waits for its end, so that a failure appears at the call that caused it.
#pragma once
#include <c10/util/Exception.h>

#include <cstdlib>
#include <string_view>

namespace tb {

inline bool launch_blocking() {
  static const bool wanted = [] {
    const char *value = std::getenv("TB_LAUNCH_BLOCKING");
    const std::string_view given = value ? value : "0";
    TORCH_CHECK(given == "0" || given == "1", "TB_LAUNCH_BLOCKING=", given, " is neither 0 nor 1");
    return given == "1";
  }();
  return wanted;
}

} // namespace tb

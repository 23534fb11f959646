// Runs one case against an open driver.
#pragma once

#include <string>
#include <vector>

#include "contract/kit.h"

namespace tb::contract {

enum class Outcome { passed, failed, not_offered, warned };
const char *name_of(Outcome outcome); // "passed", "failed", "not offered", "warned"

struct Result {
  Outcome outcome = Outcome::failed;
  std::string text;  // why it failed, or what is not offered
  std::string where; // "file:line" of the check that failed
  std::vector<std::string> statements;
  uint64_t checks = 0;
  double seconds = 0;
};

// Never throws. A case that checks nothing fails. What a failed case left behind in the driver stays there.
Result run_case(const Case &one, Kit &kit);

// "CORE, ASYNC"
std::string group_names(uint64_t groups);

// The drivers that are part of tb_device are opened with several small devices, so that cases about two devices or a
// full device run. Others: nothing.
Options default_options(const std::string &driver);

// The open function of a library. Throws Failed.
tb_driver_open_fn open_function(const std::string &path);

} // namespace tb::contract

// Collects the operators that wait from the files that register them.
#include "dispatch/synchronous_operators.h"

#include "dispatch/data_dependent.h"
#include "dispatch/host_checks.h"
#include "dispatch/layout_cache/layout_caching_kernel.h"

namespace tb::ops {

std::vector<std::pair<std::string, std::string>> synchronous_operators() {
  std::vector<std::pair<std::string, std::string>> out = {
      {"aten::_local_scalar_dense", "the result is a number on the host"},
      {"aten::equal", "the result is a number on the host"},
      {"aten::_copy_from", "between device and host memory, unless that is pinned and non_blocking is given"},
      {"aten::_copy_from_and_resize", "between device and host memory"},
  };
  for (const char *name : data_dependent_operators)
    out.emplace_back(std::string("aten::") + name, "the size of the result depends on the data");
  for (const std::string &name : sized_by_data()) out.emplace_back(name, "the size of the result depends on the data");
  for (const auto &[name, when] : checked_operators())
    if (when.empty()) out.emplace_back(name, "its kernel checks on the host, and raises");
  return out;
}

} // namespace tb::ops

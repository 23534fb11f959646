// memory_stats.cpp -- statistics under PyTorch's keys.
#include "python/memory_stats.h"

#include <string>
#include <utility>

namespace nb = nanobind;

namespace tb::allocator {

nb::dict as_dict(const tb_allocator_statistics &all) {
  static const char *const pools[] = {"all", "small_pool", "large_pool"}; // PyTorch's names
  const std::pair<const char *, const tb_statistic *> groups[] = {{"active", all.active},
                                                                  {"active_bytes", all.active_bytes},
                                                                  {"allocated_bytes", all.allocated_bytes},
                                                                  {"allocation", all.allocation},
                                                                  {"inactive_split", all.inactive_split},
                                                                  {"inactive_split_bytes", all.inactive_split_bytes},
                                                                  {"requested_bytes", all.requested_bytes},
                                                                  {"reserved_bytes", all.reserved_bytes},
                                                                  {"segment", all.segment}};
  nb::dict out;
  for (auto &[name, values] : groups)
    for (int pool = 0; pool < 3; ++pool) {
      std::string key = std::string(name) + "." + pools[pool] + ".";
      out[(key + "current").c_str()] = values[pool].current;
      out[(key + "peak").c_str()] = values[pool].peak;
      out[(key + "allocated").c_str()] = values[pool].allocated;
      out[(key + "freed").c_str()] = values[pool].freed;
    }
  out["max_split_size"] = all.max_split_size;
  out["num_alloc_retries"] = all.num_alloc_retries;
  out["num_device_alloc"] = all.num_device_alloc;
  out["num_device_free"] = all.num_device_free;
  out["num_ooms"] = all.num_ooms;
  out["num_sync_all_streams"] = all.num_sync_all_streams;
  return out;
}

} // namespace tb::allocator

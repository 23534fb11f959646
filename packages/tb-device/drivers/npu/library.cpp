// Finds and opens libascendcl.
#include "drivers/npu/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "drivers/npu/failure.h"

namespace tb::drivers::npu {
namespace {

// Made by the vendor's kernel module; without it there is nothing that the library could talk to.
constexpr const char *device_node = "/dev/davinci_manager";
constexpr const char *remedy = "Install CANN and source its set_env.sh, or name the file by TB_NPU_LIBRARY";

std::vector<std::string> places(const char *asked) {
  if (asked && *asked) return {asked};
  std::vector<std::string> places = {"libascendcl.so"};
  if (const char *home = secure_getenv("ASCEND_HOME_PATH"))
    places.push_back(std::string(home) + "/lib64/libascendcl.so");
  places.push_back("libacl_rt.so"); // owns the functions in newer CANN
  return places;
}

void *open_first(const std::vector<std::string> &places, std::string *path) {
  std::string reasons;
  for (const std::string &place : places) {
    // Local: another library's functions of the same names are not ours.
    if (void *handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return *path = place, handle;
    const char *reason = dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason ? reason : place.c_str());
  }
  throw Failure(TB_UNAVAILABLE, 0, "libascendcl cannot be loaded: " + reasons + ". " + remedy);
}

template <class F> void find(void *handle, F &function) {
  void *symbol = dlsym(handle, function.name);
  std::memcpy(&function.pointer, &symbol, sizeof symbol);
}

} // namespace

Library Library::open(const char *asked) {
  if ((!asked || !*asked) && access(device_node, F_OK) != 0)
    throw Failure(TB_UNAVAILABLE, 0,
                  std::string("this machine has no Ascend device: there is no ") + device_node +
                      ". Install the vendor's driver, or name a libascendcl by TB_NPU_LIBRARY");
  Library library;
  void *handle = open_first(places(asked), &library.path);
  std::string missing;
  int missing_count = 0;
  enum { OPTIONAL, REQUIRED };
  const auto check = [&](const char *name, bool there) {
    if (there) return;
    ++missing_count;
    missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define TB_ACL(need, name, parameters)                                                                                 \
  find(handle, library.name);                                                                                          \
  if (need == REQUIRED) check(#name, bool(library.name));
#define TB_ACL_TEXT(name)                                                                                              \
  find(handle, library.name);                                                                                          \
  check(#name, bool(library.name));
#include "drivers/npu/functions.inc"
#undef TB_ACL_TEXT
#undef TB_ACL
  check("aclrtCreateEventExWithFlag (or aclrtCreateEventWithFlag)",
        library.aclrtCreateEventExWithFlag || library.aclrtCreateEventWithFlag);
  if (missing_count == 0) return library;
  throw Failure(TB_UNAVAILABLE, 0,
                library.path + " lacks " + std::to_string(missing_count) +
                    " functions that the driver needs: " + missing +
                    ". Install a newer CANN, or name another file by "
                    "TB_NPU_LIBRARY");
}

} // namespace tb::drivers::npu

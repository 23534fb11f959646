// Libascendcl's functions, found by name in a library that is opened at run time.
#pragma once

#include <string>

#include "drivers/npu/acl.h"
#include "tb/driver.h"

namespace tb::drivers::npu {

template <class Signature> struct Function;
// NULL where the library does not have it.
template <class R, class... A> struct Function<R(A...)> {
  const char *name;
  R (*pointer)(A...) = nullptr;
  explicit operator bool() const { return pointer != nullptr; }
  R operator()(A... arguments) const { return pointer(arguments...); }
};

struct Library {
#define TB_ACL(need, name, parameters) Function<acl::Error parameters> name{#name};
#define TB_ACL_TEXT(name) Function<const char *()> name{#name};
#include "drivers/npu/functions.inc"
#undef TB_ACL_TEXT
#undef TB_ACL
  std::string path; // as it was opened

  // Opens the library and finds its functions; `asked` is the option "library", NULL without. Throws Failure
  // (TB_UNAVAILABLE) with one sentence of what is wrong and one of what to do. It is never unloaded.
  static Library open(const char *asked);

  bool has_contexts() const { return aclrtGetCurrentContext && aclrtSetCurrentContext; }
  bool has_virtual_memory() const {
    return aclrtReserveMemAddress && aclrtReleaseMemAddress && aclrtMallocPhysical && aclrtFreePhysical &&
           aclrtMapMem && aclrtUnmapMem && aclrtMemGetAllocationGranularity;
  }
  bool has_peers() const { return aclrtDeviceCanAccessPeer && aclrtDeviceEnablePeerAccess; }
};

} // namespace tb::drivers::npu

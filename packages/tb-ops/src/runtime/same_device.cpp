// Writes the text of the exception.
#include "runtime/same_device.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

namespace tb::ops {

void refuse_devices(const char *operation, c10::Device first, c10::Device other) {
  C10_THROW_ERROR(Error, c10::str("Expected all tensors to be on the same device, but ", operation, " got tensors on ",
                                  first, " and ", other, ". Move one with .to(device)."));
}

} // namespace tb::ops

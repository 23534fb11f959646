// Writes the text of the exception.
#include "runtime/same_device.h"

#include <c10/util/Exception.h>

namespace tb::ops {

void refuse_devices(const char *operation, c10::Device first, c10::Device other) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but ", operation, " got tensors on ", first,
              " and ", other, ". Move one with .to(device).");
}

} // namespace tb::ops

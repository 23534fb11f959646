// A function of a table of the ABI: the driver's function, with exceptions turned into statuses.
#pragma once

#include "driver/driver.h"
#include "opencl/failure.h"

namespace tb::opencl {

template <auto function> struct Slot;
template <class... Arguments, tb_status (*function)(tb_driver *, Arguments...)> struct Slot<function> {
  static tb_status call(tb_driver *self, Arguments... arguments) {
    return guarded(self->host, [&] { return function(self, arguments...); });
  }
};

} // namespace tb::opencl

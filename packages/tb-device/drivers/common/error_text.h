// Failing with a text, and turning exceptions into statuses at the driver's boundary.
#pragma once

#include <cstdint>
#include <exception>
#include <new>

#include "tb/driver.h"

namespace tb::drivers {

// Sets the text of this thread's failure and returns `status`.
[[gnu::format(printf, 3, 4)]] tb_status fail(const tb_host *host, tb_status status, const char *format, ...);
// The same with the system's error number.
[[gnu::format(printf, 4, 5)]] tb_status fail_native(const tb_host *host, tb_status status, int code, const char *format,
                                                    ...);

// A size in a text: "1.50 GiB".
struct ByteText {
  explicit ByteText(uint64_t bytes);
  char text[32];
};

// Runs the body of a function of the table. Exceptions become statuses here, since none may cross the table.
template <class Body> tb_status guarded(const tb_host *host, Body &&body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    host->set_error(TB_OUT_OF_MEMORY, 0, "out of host memory for the driver's own records");
    return TB_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    host->set_error(TB_INTERNAL, 0, error.what());
    return TB_INTERNAL;
  }
}

} // namespace tb::drivers

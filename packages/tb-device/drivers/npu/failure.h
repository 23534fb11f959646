// Failures inside the driver: exceptions, turned into a status and a text where a function of the table ends.
#pragma once

#include <exception>
#include <string>

#include "drivers/npu/acl.h"
#include "tb/driver.h"

namespace tb::drivers::npu {

struct Failure : std::exception {
  Failure(tb_status status, int64_t code, std::string text) : status(status), code(code), text(std::move(text)) {}
  const char *what() const noexcept override { return text.c_str(); }
  tb_status status;
  int64_t code; // the library's own, 0 if it did not fail
  std::string text;
};

[[noreturn, gnu::format(printf, 2, 3)]] void refuse(tb_status status, const char *format, ...);

// What we make of an error of the library. Codes decide, never texts.
tb_status status_of(acl::Error error);
// "aclrtMalloc failed: out of device memory (207001): EL0004 ...". `said` is aclGetRecentErrMsg's, or NULL.
Failure failure_of(const char *function, acl::Error error, const char *said);

} // namespace tb::drivers::npu

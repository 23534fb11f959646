// Status codes with a text: kept per thread, taken once, never allocating.
#pragma once

#include <cstdint>
#include <string>

#include "tb/component.h"

namespace tb::device {

const char *status_name(tb_status status); // "out of memory"; "unknown status" outside the list

// Copies text into a fixed buffer, cut between UTF-8 characters, always ended. NULL reads as "".
void copy_text(char *out, size_t size, const char *text) noexcept;

// The failure of this thread. driver, function and text may be NULL; device -1 is none.
void set_error(tb_status status, int64_t native_code, int32_t device, const char *driver, const char *function,
               const char *text) noexcept;
bool take_error(tb_error *out) noexcept;
void clear_error() noexcept;

// tb_device_table.set_explainer.
using Explainer = void (*)(char *text, uint64_t size);
void set_explainer(Explainer explain) noexcept;

// What waits call afterwards, to report warnings and errors of queued work; not 0 if it raised. The two functions are
// in tb_device_table.
using LateReporter = int32_t (*)();
void set_late_reporter(LateReporter report) noexcept;
int32_t report_late() noexcept;

// set_error with a formatted text; returns the status, so that a function can end with it.
[[gnu::format(printf, 5, 6)]] tb_status fail(tb_status status, int32_t device, const char *driver, const char *function,
                                             const char *format, ...) noexcept;

// A failure on its way to a Python exception.
struct Failure {
  tb_status status;
  int64_t native_code;
  int32_t device;
  std::string driver, function, text;

  // Takes this thread's text if it belongs to `status`.
  static Failure take(tb_status status, const char *driver, const char *function, int32_t device);
  // "mychip: mem_alloc(device=0) failed: out of memory (8): text [native code 2]"
  std::string message() const;
};

} // namespace tb::device

// Statuses and PyTorch's exceptions, both ways: what a kernel throws on a stream's worker is thrown again, as the same
// type, at the call that hears of it.
#pragma once
#include <c10/util/Exception.h>

#include "tb/driver.h"

namespace tb {

// What a closure returns for an exception. A precondition that did not hold is what TORCH_CHECK means.
inline tb_status status_of(const c10::Error &error) {
  if (dynamic_cast<const c10::OutOfMemoryError *>(&error)) return TB_OUT_OF_MEMORY;
  if (dynamic_cast<const c10::NotImplementedError *>(&error)) return TB_UNSUPPORTED;
  if (dynamic_cast<const c10::IndexError *>(&error)) return TB_OUT_OF_RANGE;
  if (dynamic_cast<const c10::ValueError *>(&error)) return TB_INVALID_ARGUMENT;
  if (dynamic_cast<const c10::LinAlgError *>(&error)) return TB_ABORTED;
  return TB_FAILED_PRECONDITION;
}

// Queued work failed as its kernel threw; a call with a device out of range is an AcceleratorError, as elsewhere.
enum class Failed { call, work };

// Throws what a status stands for; AcceleratorError (a RuntimeError in Python) for what no kernel throws.
[[noreturn]] inline void throw_failure(tb_status status, const char *function, const char *text, Failed what) {
  const c10::SourceLocation where{function, __FILE__, static_cast<uint32_t>(__LINE__)};
  if (what == Failed::call && status == TB_OUT_OF_RANGE) throw c10::AcceleratorError(where, status, text);
  switch (status) {
  case TB_OUT_OF_MEMORY:
    throw c10::OutOfMemoryError(where, text);
  case TB_UNSUPPORTED:
    throw c10::NotImplementedError(where, text);
  case TB_OUT_OF_RANGE:
    throw c10::IndexError(where, text);
  case TB_INVALID_ARGUMENT:
    throw c10::ValueError(where, text);
  case TB_ABORTED:
    throw c10::LinAlgError(where, text);
  case TB_FAILED_PRECONDITION:
    throw c10::Error(where, text);
  default:
    throw c10::AcceleratorError(where, status, text);
  }
}

} // namespace tb

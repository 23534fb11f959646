// Conversion of PyTorch's exceptions to statuses and back. An exception that a kernel throws on a stream's worker is
// thrown again, with the same type, by the call that reports it.
#pragma once
#include <c10/util/Exception.h>

#include <cstring>

#include "tb/component.h"

namespace tb {

// The status that a closure returns for an exception. TORCH_CHECK's own type means a precondition that does not hold.
inline tb_status status_of(const c10::Error &error) {
  if (dynamic_cast<const c10::OutOfMemoryError *>(&error)) return TB_OUT_OF_MEMORY;
  if (dynamic_cast<const c10::NotImplementedError *>(&error)) return TB_UNSUPPORTED;
  if (dynamic_cast<const c10::IndexError *>(&error)) return TB_OUT_OF_RANGE;
  if (dynamic_cast<const c10::ValueError *>(&error)) return TB_INVALID_ARGUMENT;
  if (dynamic_cast<const c10::LinAlgError *>(&error)) return TB_ABORTED;
  return TB_FAILED_PRECONDITION;
}

// What failed. A call with a device out of range throws AcceleratorError, as on other devices; queued work throws the
// type of its kernel's exception.
enum class Failed { call, work };

// Whether a text tells of a collective that failed: the closures of collectives have the names of c10d's operators.
inline bool tells_of_collective(const char *text) { return std::strstr(text, "c10d::") != nullptr; }

// Throws the exception of a status; AcceleratorError (a RuntimeError in Python) for a status that no kernel returns.
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
  case TB_UNAVAILABLE:
    if (what == Failed::work && tells_of_collective(text)) throw c10::DistBackendError(where, text);
    [[fallthrough]];
  default:
    throw c10::AcceleratorError(where, status, text);
  }
}

// Throws the failure that a component reported to tb-device on this thread, with the whole text for the user.
[[noreturn]] inline void throw_reported_failure(const tb_device_table &tb_device, tb_status status,
                                                const char *function, int32_t device, Failed what) {
  char text[2048] = "";
  tb_device.describe_error(status, function, device, text, sizeof text);
  throw_failure(status, function, text, what);
}

} // namespace tb

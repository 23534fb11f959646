// Keeps the failure of each thread.
#include "host/errors.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace tb::device {
namespace {

thread_local tb_error last{};
std::atomic<Explainer> explainer{nullptr};
std::atomic<LateReporter> late_reporter{nullptr};

} // namespace

const char *status_name(tb_status status) {
  switch (status) {
  case TB_OK:
    return "ok";
  case TB_CANCELLED:
    return "cancelled";
  case TB_UNKNOWN:
    return "unknown";
  case TB_INVALID_ARGUMENT:
    return "invalid argument";
  case TB_DEADLINE_EXCEEDED:
    return "deadline exceeded";
  case TB_NOT_FOUND:
    return "not found";
  case TB_ALREADY_EXISTS:
    return "already exists";
  case TB_PERMISSION_DENIED:
    return "permission denied";
  case TB_OUT_OF_MEMORY:
    return "out of memory";
  case TB_FAILED_PRECONDITION:
    return "failed precondition";
  case TB_ABORTED:
    return "aborted";
  case TB_OUT_OF_RANGE:
    return "out of range";
  case TB_UNSUPPORTED:
    return "unsupported";
  case TB_INTERNAL:
    return "internal error";
  case TB_UNAVAILABLE:
    return "unavailable";
  case TB_DATA_LOSS:
    return "data loss";
  case TB_NOT_READY:
    return "not ready";
  case TB_DEVICE_LOST:
    return "device lost";
  case TB_ABI_MISMATCH:
    return "ABI mismatch";
  default:
    return "unknown status";
  }
}

void copy_text(char *out, size_t size, const char *text) noexcept {
  if (!text) text = "";
  size_t length = strnlen(text, size);
  if (length == size) {
    length = size - 1;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  std::memcpy(out, text, length);
  out[length] = 0;
}

void set_error(tb_status status, int64_t native_code, int32_t device, const char *driver, const char *function,
               const char *text) noexcept {
  last.struct_size = sizeof last;
  last.status = status;
  last.native_code = native_code;
  last.device = device;
  copy_text(last.driver, sizeof last.driver, driver);
  copy_text(last.function, sizeof last.function, function);
  copy_text(last.text, sizeof last.text, text);
}

bool take_error(tb_error *out) noexcept {
  if (last.status == TB_OK) return false;
  uint32_t size = out->struct_size < sizeof last ? out->struct_size : sizeof last;
  if (size > sizeof out->struct_size) {
    uint32_t owner = out->struct_size;
    std::memcpy(out, &last, size);
    out->struct_size = owner;
  }
  clear_error();
  // Last: it may run Python, and with it anything.
  Explainer explain = explainer.load(std::memory_order_acquire);
  if (explain && size == sizeof last) explain(out->text, sizeof out->text);
  return true;
}

void set_explainer(Explainer explain) noexcept { explainer.store(explain, std::memory_order_release); }

void set_late_reporter(LateReporter report) noexcept { late_reporter.store(report, std::memory_order_release); }

int32_t report_late() noexcept {
  const LateReporter report = late_reporter.load(std::memory_order_acquire);
  return report ? report() : 0;
}

void clear_error() noexcept { last.status = TB_OK; }

tb_status fail(tb_status status, int32_t device, const char *driver, const char *function, const char *format,
               ...) noexcept {
  char text[sizeof last.text];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  set_error(status, 0, device, driver, function, text);
  return status;
}

Failure Failure::take(tb_status status, const char *driver, const char *function, int32_t device) {
  Failure failure{status, 0, device, driver ? driver : "", function ? function : "", ""};
  tb_error error{};
  error.struct_size = sizeof error;
  // A text of an earlier failure that nothing took must not explain this one.
  if (take_error(&error) && error.status == status) {
    failure.native_code = error.native_code;
    failure.text = error.text;
    if (error.device >= 0) failure.device = error.device;
    if (error.driver[0]) failure.driver = error.driver;
    if (error.function[0]) failure.function = error.function;
  }
  return failure;
}

std::string Failure::message() const {
  std::string out = driver.empty() ? "tb-device" : driver;
  out += ": " + function;
  out += device >= 0 ? "(device=" + std::to_string(device) + ")" : "()";
  out += std::string(" failed: ") + status_name(status) + " (" + std::to_string(status) + ")";
  if (!text.empty()) out += ": " + text;
  if (native_code) out += " [native code " + std::to_string(native_code) + "]";
  return out;
}

} // namespace tb::device

// Formats the texts of failures.
#include "drivers/common/error_text.h"

#include <cstdarg>
#include <cstdio>

namespace tb::drivers {

namespace {
tb_status set(const tb_host *host, tb_status status, int code, const char *format, va_list arguments) {
  char text[1024];
  std::vsnprintf(text, sizeof text, format, arguments);
  host->set_error(status, code, text);
  return status;
}
} // namespace

tb_status fail(const tb_host *host, tb_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  set(host, status, 0, format, arguments);
  va_end(arguments);
  return status;
}

tb_status fail_native(const tb_host *host, tb_status status, int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  set(host, status, code, format, arguments);
  va_end(arguments);
  return status;
}

ByteText::ByteText(uint64_t bytes) {
  static constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  unsigned unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
}

} // namespace tb::drivers

// The library's error codes: what they mean, what status they are, what to do.
#include "drivers/npu/failure.h"

#include <cstdarg>
#include <cstdio>

namespace tb::drivers::npu {
namespace {

struct Kind {
  acl::Error first, last; // codes
  tb_status status;
  const char *meaning;
  const char *remedy; // "" where the text of the library says more
};

// The first row that has a code counts: single codes before ranges.
constexpr Kind kinds[] = {
    {100000, 100000, TB_INVALID_ARGUMENT, "invalid parameter", ""},
    {100001, 100001, TB_FAILED_PRECONDITION, "the library is not initialised", ""},
    {100036, 100036, TB_DEADLINE_EXCEEDED, "timeout of a callback", ""},
    {100039, 100039, TB_UNAVAILABLE, "this is the library for building programs, not the runtime",
     "Put the runtime's lib64 first in LD_LIBRARY_PATH"},
    {107000, 107000, TB_INVALID_ARGUMENT, "invalid parameter", ""},
    {107001, 107001, TB_OUT_OF_RANGE, "no such device", "See ASCEND_RT_VISIBLE_DEVICES"},
    {107002, 107003, TB_FAILED_PRECONDITION, "another device or none is current on this thread", ""},
    {107006, 107007, TB_FAILED_PRECONDITION, "the event has no time", ""},
    {107008, 107008, TB_INVALID_ARGUMENT, "unaligned address", ""},
    {107016, 107018, TB_INVALID_ARGUMENT, "invalid memory kind or handle", ""},
    {107019, 107020, TB_DEADLINE_EXCEEDED, "timeout", ""},
    {107022, 107023, TB_ABORTED, "the work was aborted", ""},
    {107035, 107035, TB_ABORTED, "the work was aborted", ""},
    {107011, 107046, TB_FAILED_PRECONDITION, "not possible in this state", ""},
    {200000, 200000, TB_OUT_OF_MEMORY, "out of host memory", ""},
    {200001, 200006, TB_UNSUPPORTED, "not supported by this device or this CANN", ""},
    {207000, 207000, TB_UNSUPPORTED, "not supported by this device or this CANN", ""},
    {207001, 207001, TB_OUT_OF_MEMORY, "out of device memory", "Free memory, or ask for less"},
    {207018, 207018, TB_OUT_OF_MEMORY, "out of device memory", "Free memory, or ask for less"},
    {207004, 207004, TB_UNAVAILABLE, "no device", "See npu-smi info"},
    {207005, 207005, TB_UNAVAILABLE, "a resource of the device is used up", ""},
    {207007, 207007, TB_UNAVAILABLE, "the device's events are used up", "Destroy some"},
    {207008, 207008, TB_UNAVAILABLE, "the device's streams are used up", "Destroy some"},
    {207009, 207012, TB_UNAVAILABLE, "a resource of the device is used up", ""},
    {207006, 207006, TB_PERMISSION_DENIED, "no permission", "The user must be in the group of /dev/davinci*"},
    {207020, 207020, TB_DEADLINE_EXCEEDED, "timeout of the driver", ""},
    {207003, 207003, TB_INTERNAL, "overflow in a kernel", ""},
    {207016, 207017, TB_INTERNAL, "overflow in a kernel", ""},
    {300000, 300000, TB_UNAVAILABLE, "over a limit of the library", ""},
    {507010, 507010, TB_DEVICE_LOST, "the device's heartbeat is lost", "See npu-smi info and dmesg"},
    {507901, 507901, TB_DEVICE_LOST, "the connection to the device is closed", "See npu-smi info and dmesg"},
    {507046, 507047, TB_DEADLINE_EXCEEDED, "timeout", ""},
    {507053, 507057, TB_DATA_LOSS, "a hardware fault of memory or link", "See npu-smi info and dmesg"},
    {507013, 507052, TB_INTERNAL, "work on the device failed", ""},
    {507903, 507903, TB_FAILED_PRECONDITION, "the capture is invalid", ""},
    {507910, 507910, TB_ALREADY_EXISTS, "host memory is registered already", ""},
    {507911, 507911, TB_NOT_FOUND, "host memory is not registered", ""},
    {500000, 507999, TB_INTERNAL, "internal error of the library", "The log is below ~/ascend/log"},
};

} // namespace

void refuse(tb_status status, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw Failure(status, 0, text);
}

static const Kind *kind_of(acl::Error error) {
  for (const Kind &kind : kinds)
    if (kind.first <= error && error <= kind.last) return &kind;
  return nullptr;
}

tb_status status_of(acl::Error error) {
  const Kind *kind = kind_of(error);
  return kind ? kind->status : TB_UNKNOWN;
}

Failure failure_of(const char *function, acl::Error error, const char *said) {
  const Kind *kind = kind_of(error);
  std::string text = std::string(function) +
                     " failed: " + (kind ? kind->meaning : "a code that the driver does not know") + " (" +
                     std::to_string(error) + ")";
  if (said && *said) text += ": " + std::string(said);
  if (kind && *kind->remedy) text += std::string(". ") + kind->remedy;
  return Failure(status_of(error), error, text);
}

} // namespace tb::drivers::npu

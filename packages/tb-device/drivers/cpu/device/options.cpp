// Reads the driver's options.
#include "drivers/cpu/device/options.h"

#include <cctype>
#include <charconv>
#include <cstring>

#include "drivers/common/error_text.h"
#include "drivers/common/machine.h"

namespace tb::drivers::cpu {

namespace {

// Digits and nothing else, or, where `suffix` allows, one of K, M, G.
bool parse(const char *text, bool suffix, uint64_t minimum, uint64_t maximum, uint64_t *out) {
  const char *end = text + std::strlen(text);
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text, end, number);
  if (error != std::errc() || rest == text) return false;
  unsigned shift = 0;
  if (rest != end) {
    if (!suffix || rest + 1 != end) return false;
    switch (std::toupper(static_cast<unsigned char>(*rest))) {
    case 'K':
      shift = 10;
      break;
    case 'M':
      shift = 20;
      break;
    case 'G':
      shift = 30;
      break;
    default:
      return false;
    }
  }
  if (number > (UINT64_MAX >> shift)) return false;
  number <<= shift;
  if (number < minimum || number > maximum) return false;
  *out = number;
  return true;
}

tb_status read(const tb_host *host, const char *key, const char *accepted, bool suffix, uint64_t minimum,
               uint64_t maximum, uint64_t *value) {
  const char *text = host->option ? host->option(key) : nullptr;
  if (!text || parse(text, suffix, minimum, maximum, value)) return TB_OK;
  return fail(host, TB_INVALID_ARGUMENT, "option \"%s\" of the CPU driver is \"%.80s\"; accepted is %s", key, text,
              accepted);
}

} // namespace

tb_status read_options(const tb_host *host, Options *out) {
  Options options;
  uint64_t devices = local_processes(Options::maximum_devices, static_cast<uint64_t>(options.devices)),
           spin = options.spin;
  options.memory = total_memory();
  if (const tb_status status =
          read(host, "devices", "a whole number from 1 to 64", false, 1, Options::maximum_devices, &devices))
    return status;
  if (const tb_status status = read(host, "memory", "a number of bytes above 0, also with K, M or G as in \"512M\"",
                                    true, 1, UINT64_MAX / 2, &options.memory))
    return status;
  if (const tb_status status =
          read(host, "spin", "a whole number of pauses from 0 to 1000000", false, 0, Options::maximum_spin, &spin))
    return status;
  options.available = options.memory == total_memory() ? available_memory() : options.memory;
  options.devices = static_cast<int32_t>(devices);
  options.spin = static_cast<uint32_t>(spin);
  *out = options;
  return TB_OK;
}

} // namespace tb::drivers::cpu

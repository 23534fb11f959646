// Reads the sim driver's options.
#include "drivers/sim/device/options.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "drivers/common/error_text.h"
#include "drivers/common/machine.h"

namespace tb::drivers::sim {

namespace {

// How far the unit after a number shifts it; -1 for no such unit.
int shift_of(std::string_view unit) {
  if (unit.empty()) return 0;
  if (unit.size() == 3 && unit.substr(1) == "iB") unit = unit.substr(0, 1);
  if (unit.size() != 1) return -1;
  switch (unit[0]) {
  case 'K':
  case 'k':
    return 10;
  case 'M':
  case 'm':
    return 20;
  case 'G':
  case 'g':
    return 30;
  default:
    return -1;
  }
}

bool parse(std::string_view text, bool size, uint64_t minimum, uint64_t maximum, uint64_t *out) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const int shift = shift_of(text.substr(static_cast<size_t>(rest - text.data())));
  if (error != std::errc() || rest == text.data() || shift < 0 || (shift > 0 && !size)) return false;
  if (number > (UINT64_MAX >> shift)) return false;
  number <<= shift;
  if (number < minimum || number > maximum) return false;
  *out = number;
  return true;
}

class Reader {
public:
  explicit Reader(const tb_host *host) : host_(host) {}
  // Keeps the first failure.
  void read(const char *key, const char *accepted, bool size, uint64_t minimum, uint64_t maximum, uint64_t *value) {
    const char *text = this->text(key);
    if (status || !text || parse(text, size, minimum, maximum, value)) return;
    status = fail(host_, TB_INVALID_ARGUMENT, "option \"%s\" of the sim driver is \"%.80s\"; accepted is %s", key, text,
                  accepted);
  }
  // Reads names of facts (TB_LACKS_*), with a comma between them.
  void read_lacks(uint32_t *out) {
    constexpr struct {
      std::string_view name;
      uint32_t bit;
    } known[] = {{"float64", TB_LACKS_FLOAT64},
                 {"atomic64", TB_LACKS_ATOMIC64},
                 {"float_atomics", TB_LACKS_FLOAT_ATOMICS},
                 {"fma", TB_LACKS_FMA}};
    std::string_view rest = text("lacks") ? text("lacks") : "";
    while (!status && !rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      const auto *found = std::find_if(std::begin(known), std::end(known), [&](auto &one) { return one.name == name; });
      if (found == std::end(known))
        status =
            fail(host_, TB_INVALID_ARGUMENT,
                 "option \"lacks\" of the sim driver is \"%.80s\"; accepted are float64, atomic64, float_atomics and "
                 "fma, with a comma between them",
                 text("lacks"));
      else
        *out |= found->bit;
    }
  }
  const char *text(const char *key) const { return host_->option ? host_->option(key) : nullptr; }
  tb_status status = TB_OK;

private:
  const tb_host *const host_;
};

} // namespace

tb_status read_options(const tb_host *host, Options *out) {
  Options options;
  Reader reader(host);
  uint64_t devices = local_processes(Options::maximum_devices, static_cast<uint64_t>(options.devices)), isolated = 1,
           fault_text = 1, max_argument_size = 0, vector_size = 0, named_pointers = 0;
  reader.read("devices", "a whole number from 1 to 8", false, 1, Options::maximum_devices, &devices);
  reader.read("capacity", "a number of bytes from 64KiB to 256GiB, with K, M, G or KiB, MiB, GiB", true,
              Options::least_capacity, Options::largest_capacity, &options.capacity);
  reader.read("latency", "a whole number of microseconds up to 10000000", false, 0, 10000000, &options.latency);
  reader.read("bandwidth", "a number of bytes per second, with K, M, G or KiB, MiB, GiB; 0 is no limit", true, 0,
              UINT64_MAX, &options.bandwidth);
  reader.read("seed", "a whole number", false, 0, UINT64_MAX, &options.seed);
  reader.read("isolated", "0 or 1", false, 0, 1, &isolated);
  reader.read("fault_text", "0 or 1", false, 0, 1, &fault_text);
  reader.read("lose_after", "the number of an operation, from 1, or 0 for never", false, 0, UINT64_MAX,
              &options.lose_after);
  reader.read("idle", "a whole number of milliseconds from 1 to 60000", false, 1, 60000, &options.idle);
  reader.read("max_argument_size", "a number of bytes, or 0 for no limit", false, 0, UINT32_MAX, &max_argument_size);
  reader.read("vector_size", "a number of bytes up to 4096", false, 0, 4096, &vector_size);
  reader.read("named_pointers", "0 or 1", false, 0, 1, &named_pointers);
  reader.read_lacks(&options.lacks);
  if (reader.status) return reader.status;
  if (const char *schedule = reader.text("schedule")) options.schedule = schedule;
  if (const char *architecture = reader.text("architecture")) options.architecture = architecture;
  if (options.architecture.size() >= sizeof tb_device_info::arch)
    return fail(host, TB_INVALID_ARGUMENT,
                "option \"architecture\" of the sim driver is \"%.80s\"; accepted is a name "
                "of at most 31 bytes",
                options.architecture.c_str());
  options.devices = static_cast<int32_t>(devices);
  options.isolated = isolated != 0;
  options.fault_text = fault_text != 0;
  options.max_argument_size = static_cast<uint32_t>(max_argument_size);
  options.vector_size = static_cast<uint32_t>(vector_size);
  options.named_pointers = named_pointers != 0;
  *out = std::move(options);
  return TB_OK;
}

} // namespace tb::drivers::sim

// The extension tb_generator._testing: elementary functions and their documented errors, for the package's own tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "distribution/elementary.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::generator {
namespace {

std::vector<std::tuple<double, double, double>> elementary(const std::vector<uint64_t> &random, bool wide) {
  std::vector<std::tuple<double, double, double>> out;
  for (const uint64_t one : random) {
    if (wide) {
      const Direction<double> towards = direction(one);
      out.emplace_back(negative_log(one), towards.cosine, towards.sine);
    } else {
      const auto word = static_cast<uint32_t>(one);
      const Direction<float> towards = direction(word);
      out.emplace_back(negative_log(word), towards.cosine, towards.sine);
    }
  }
  return out;
}

std::vector<double> exponentials(const std::vector<double> &numbers, bool wide) {
  std::vector<double> out;
  for (const double one : numbers)
    out.push_back(wide ? exponential(one) : static_cast<double>(exponential(static_cast<float>(one))));
  return out;
}

} // namespace
} // namespace tb::generator

NB_MODULE(_testing, module) {
  using namespace tb::generator;
  nb::set_leak_warnings(false);
  module.doc() = "What only the tests of tb_generator call.";
  module.def(
      "ulp_bounds", [] { return std::tuple(ulp_negative_log, ulp_cosine, ulp_sine, ulp_exponential); },
      "The documented errors of negative_log, cosine, sine and exponential, in units in the last place.");
  module.def("elementary", elementary, "random"_a, "wide"_a,
             "negative_log, cosine and sine of 32-bit words (wide: of 64-bit ones).");
  module.def("exponentials", exponentials, "numbers"_a, "wide"_a, "exp of float32 numbers (wide: of float64 ones).");
}

// Checks the arguments of fills and runs the distributions with the instruction set in use.
#include "fill/fill.h"

#include <cmath>
#include <cstdio>
#include <numbers>

#include "distribution/distribution.h"
#include "distribution/integers.h"
#include "distribution/truncated_normal.h"
#include "fill/fill_range.h"

namespace tb::generator {
namespace {

[[noreturn]] void refuse(std::string text) { throw Refusal{TB_INVALID_ARGUMENT, std::move(text)}; }

std::string shown(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", value);
  return text;
}

const char *type_name(int32_t type) {
  constexpr const char *names[] = {"",      "float32", "float64", "float16", "bfloat16", "int64",
                                   "int32", "int16",   "int8",    "uint8",   "bool"};
  return type >= TB_FLOAT32 && type <= TB_BOOL ? names[type] : "an unknown type";
}

bool is_floating(int32_t type) { return type >= TB_FLOAT32 && type <= TB_BFLOAT16; }

void require_floating(const char *kind, int32_t type) {
  if (!is_floating(type))
    refuse(std::string(kind) + " fills float32, float64, float16 and bfloat16, not " + type_name(type) +
           ". Use integers or bernoulli, or fill a floating type and convert it");
}

// Calls visit(Float32{}) or that of another floating type.
template <class Visit> void for_floating(int32_t type, const Visit &visit) {
  switch (type) {
  case TB_FLOAT32:
    return visit(Float32{});
  case TB_FLOAT64:
    return visit(Float64{});
  case TB_FLOAT16:
    return visit(Float16{});
  default:
    return visit(Bfloat16{});
  }
}

void uniform(void *dst, int32_t type, Range range, State state, double from, double to) {
  require_floating("uniform", type);
  const std::string asked = "uniform on " + shown(from) + " <= x < " + shown(to) + " as " + type_name(type);
  if (!(std::isfinite(from) && std::isfinite(to) && from <= to)) refuse(asked + ": give finite bounds, from <= to");
  for_floating(type, [&]<class Type>(Type) {
    using Real = typename Type::Real;
    double low = Type::nearest(from), high = low;
    if (from < to) low = at_least<Type>(from), high = below<Type>(to);
    const Real width = static_cast<Real>(to) - static_cast<Real>(from);
    if (!(low <= high && std::isfinite(low)))
      refuse(asked + ": the type has no value there. Widen the interval or use float64");
    if (!std::isfinite(width)) refuse(asked + ": to - from is beyond the type's range. Use a narrower interval");
    run(Uniform<Type>{static_cast<Real>(from), width, static_cast<Real>(low), static_cast<Real>(high)}, dst, range,
        state);
  });
}

void normal(const char *kind, void *dst, int32_t type, Range range, State state, double mean, double std) {
  require_floating(kind, type);
  if (!(std::isfinite(mean) && std::isfinite(std) && std >= 0))
    refuse(std::string(kind) + " with mean " + shown(mean) + " and std " + shown(std) +
           ": give finite numbers, std >= 0");
  const bool logarithmic = kind[0] == 'l';
  for_floating(type, [&]<class Type>(Type) {
    using Real = typename Type::Real;
    const auto centre = static_cast<Real>(mean), scale = static_cast<Real>(std * std::numbers::sqrt2);
    if (logarithmic)
      run(Normal<Type, true>{centre, scale}, dst, range, state);
    else
      run(Normal<Type, false>{centre, scale}, dst, range, state);
  });
}

void truncated_normal(void *dst, int32_t type, Range range, State state, const Distribution &asked) {
  require_floating("truncated_normal", type);
  const auto [kind, mean, std, low, high, from, width] = asked;
  const std::string text = "truncated_normal with mean " + shown(mean) + " and std " + shown(std) + " on " +
                           shown(low) + " <= x <= " + shown(high) + " as " + type_name(type);
  if (!(std::isfinite(mean) && std::isfinite(std) && std > 0 && low <= high))
    refuse(text + ": give a finite mean, a finite std > 0 and low <= high");
  for_floating(type, [&]<class Type>(Type) {
    const double least = at_least<Type>(low), most = -at_least<Type>(-high);
    const Truncation truncation = Truncation::of((low - mean) / std, (high - mean) / std);
    if (!(least <= most) || std::isinf(truncation.rate))
      refuse(text + ": the type has no value there, or none that a normal number takes. Widen the interval");
    run(TruncatedNormal<Type>{truncation, state, mean, std, least, most}, dst, range, state);
  });
}

void exponential(void *dst, int32_t type, Range range, State state, double rate) {
  require_floating("exponential", type);
  if (!(std::isfinite(rate) && rate > 0)) refuse("exponential with rate " + shown(rate) + ": give a finite rate > 0");
  for_floating(type, [&]<class Type>(Type) {
    run(Exponential<Type>{static_cast<typename Type::Real>(1 / rate)}, dst, range, state);
  });
}

void cauchy(void *dst, int32_t type, Range range, State state, double median, double sigma) {
  require_floating("cauchy", type);
  if (!(std::isfinite(median) && std::isfinite(sigma) && sigma > 0))
    refuse("cauchy with median " + shown(median) + " and sigma " + shown(sigma) +
           ": give a finite median and a finite sigma > 0");
  for_floating(type, [&]<class Type>(Type) {
    using Real = typename Type::Real;
    run(Cauchy<Type>{static_cast<Real>(median), static_cast<Real>(sigma)}, dst, range, state);
  });
}

// -log(1 - p) for 0 < p < 1. The factor p / (1 - failure) restores what rounding lost in 1 - p, which matters if p is
// small.
double negative_log_of_failure(double p) {
  const double failure = 1 - p;
  if (failure == 1) return p;
  int exponent = 0;
  const double mantissa = std::frexp(failure, &exponent);
  return negative_log(mantissa - 1, -exponent) * (p / (1 - failure));
}

void geometric(void *dst, int32_t type, Range range, State state, double p) {
  if (!(p > 0 && p <= 1)) refuse("geometric with p = " + shown(p) + ": give a probability, 0 < p <= 1");
  const double mean = p == 1 ? 0 : 1 / negative_log_of_failure(p);
  switch (type) {
  case TB_INT64:
    return run(Geometric<Saturated<int64_t>>{mean}, dst, range, state);
  case TB_INT32:
    return run(Geometric<Saturated<int32_t>>{mean}, dst, range, state);
  case TB_INT16:
    return run(Geometric<Saturated<int16_t>>{mean}, dst, range, state);
  case TB_INT8:
    return run(Geometric<Saturated<int8_t>>{mean}, dst, range, state);
  case TB_UINT8:
    return run(Geometric<Saturated<uint8_t>>{mean}, dst, range, state);
  default:
    break;
  }
  if (!is_floating(type)) refuse("geometric counts trials, which " + std::string(type_name(type)) + " cannot hold");
  for_floating(type, [&]<class Type>(Type) { run(Geometric<Rounded<Type>>{mean}, dst, range, state); });
}

// p * 2^32, rounded to the nearest integer.
uint64_t threshold(double p) { return static_cast<uint64_t>(p * 0x1p32 + 0.5); }

void bernoulli(void *dst, int32_t type, Range range, State state, double p) {
  if (!(p >= 0 && p <= 1)) refuse("bernoulli with p = " + shown(p) + ": give a probability, 0 <= p <= 1");
  switch (type) {
  case TB_FLOAT64:
    return run(Bernoulli<uint64_t>{threshold(p), std::bit_cast<uint64_t>(1.0)}, dst, range, state);
  case TB_FLOAT32:
    return run(Bernoulli<uint32_t>{threshold(p), std::bit_cast<uint32_t>(1.0f)}, dst, range, state);
  case TB_FLOAT16:
    return run(Bernoulli<uint16_t>{threshold(p), float16_bits(1)}, dst, range, state);
  case TB_BFLOAT16:
    return run(Bernoulli<uint16_t>{threshold(p), bfloat16_bits(1)}, dst, range, state);
  case TB_INT64:
    return run(Bernoulli<uint64_t>{threshold(p), 1}, dst, range, state);
  case TB_INT32:
    return run(Bernoulli<uint32_t>{threshold(p), 1}, dst, range, state);
  case TB_INT16:
    return run(Bernoulli<uint16_t>{threshold(p), 1}, dst, range, state);
  case TB_INT8:
  case TB_UINT8:
  case TB_BOOL:
    return run(Bernoulli<uint8_t>{threshold(p), 1}, dst, range, state);
  default:
    refuse("bernoulli fills elements of type TB_FLOAT32 to TB_BOOL, not " + std::to_string(type));
  }
}

// Uses 32-bit words where they suffice and 64-bit words elsewhere.
template <class Out> void integers_as(const Out &out, void *dst, Range range, State state, uint64_t width) {
  if (width && width <= uint64_t{1} << 32)
    return run(SmallIntegers<Out>{width, state, scale_32(), out, scale_64(range.count)}, dst, range, state);
  run(LargeIntegers<Out>{width, state, out}, dst, range, state);
}

void integers(void *dst, int32_t type, Range range, State state, int64_t from, uint64_t width) {
  constexpr int64_t all = std::numeric_limits<int64_t>::max();
  // Highest value of the integer types; the lowest is -highest - 1, or 0.
  constexpr int64_t highest[] = {0, all, all, all, all, all, 0x7FFFFFFF, 0x7FFF, 0x7F, 0xFF, 1};
  if (!element_size(type)) refuse("integers fills elements of type TB_FLOAT32 to TB_BOOL, not " + std::to_string(type));
  const int64_t top = highest[type], bottom = type == TB_UINT8 || type == TB_BOOL ? 0 : -top - 1;
  const bool whole = width == 0; // an interval of 2^64 integers holds every int64, whatever its first number is
  if (whole ? top != all
            : from < bottom || from > top || width - 1 > static_cast<uint64_t>(top) - static_cast<uint64_t>(from))
    refuse("integers from " + std::to_string(from) + " on, " + (whole ? "2^64" : std::to_string(width)) +
           " of them, as " + type_name(type) + ": the type (floating ones: int64) ends at " + std::to_string(bottom) +
           " and " + std::to_string(top) + ". Narrow the interval");
  const auto start = static_cast<uint64_t>(from);
  switch (type) {
  case TB_INT64:
    return integers_as(Added<uint64_t>{start}, dst, range, state, width);
  case TB_INT32:
    return run(SmallIntegers<Added<uint32_t>>{width, state, scale_32(), {start}}, dst, range, state);
  case TB_INT16:
    return run(SmallIntegers<Added<uint16_t>>{width, state, scale_32(), {start}}, dst, range, state);
  case TB_INT8:
  case TB_UINT8:
  case TB_BOOL:
    return run(SmallIntegers<Added<uint8_t>>{width, state, scale_32(), {start}}, dst, range, state);
  default:
    break;
  }
  // The sum is exact where long double has 64 bits. Elsewhere its rounding does not affect a type of 53 bits or fewer.
  const long double to = whole ? 0x1p63L : static_cast<long double>(from) + static_cast<long double>(width);
  auto least = static_cast<double>(whole ? std::numeric_limits<int64_t>::min() : from);
  if (!whole && static_cast<long double>(least) < static_cast<long double>(from)) least = Float64::next(least, 1);
  for_floating(type, [&]<class Type>(Type) {
    using Real = typename Type::Real;
    const double low = at_least<Type>(least), high = below<Type>(static_cast<double>(to));
    if (!(low <= high && std::isfinite(low) && std::isfinite(high)))
      refuse("integers from " + std::to_string(from) + " on, " + std::to_string(width) + " of them, as " +
             type_name(type) + ": the type has no value there. Use a type with more digits");
    integers_as(AddedFloating<Type>{start, static_cast<Real>(low), static_cast<Real>(high)}, dst, range, state, width);
  });
}

} // namespace

uint32_t element_size(int32_t type) {
  constexpr uint32_t sizes[] = {0, 4, 8, 2, 2, 8, 4, 2, 1, 1, 1};
  return type >= TB_FLOAT32 && type <= TB_BOOL ? sizes[type] : 0;
}

uint32_t words_per_element(int32_t kind, int32_t type) {
  if (!element_size(type)) return 0;
  switch (kind) {
  case TB_FILL_UNIFORM:
  case TB_FILL_NORMAL:
  case TB_FILL_EXPONENTIAL:
  case TB_FILL_CAUCHY:
  case TB_FILL_LOG_NORMAL:
    return !is_floating(type) ? 0 : type == TB_FLOAT64 ? 2 : 1;
  case TB_FILL_TRUNCATED_NORMAL:
    return is_floating(type) ? 4 : 0;
  case TB_FILL_GEOMETRIC:
    return type == TB_BOOL ? 0 : 2;
  case TB_FILL_INTEGERS:
    return is_floating(type) || type == TB_INT64 ? 2 : 1;
  case TB_FILL_BERNOULLI:
    return 1;
  default:
    return 0;
  }
}

uint64_t words_needed(int32_t kind, int32_t type, uint64_t count) {
  constexpr uint64_t group = Normal<Float32, false>::group;
  if (kind == TB_FILL_NORMAL || kind == TB_FILL_LOG_NORMAL) count = (count + group - 1) / group * group;
  return words_per_element(kind, type) * count;
}

void fill(const Distribution &asked, void *dst, int32_t type, Range range, State state) {
  switch (asked.kind) {
  case TB_FILL_UNIFORM:
    return uniform(dst, type, range, state, asked.first, asked.second);
  case TB_FILL_NORMAL:
    return normal("normal", dst, type, range, state, asked.first, asked.second);
  case TB_FILL_INTEGERS:
    return integers(dst, type, range, state, asked.from, asked.width);
  case TB_FILL_BERNOULLI:
    return bernoulli(dst, type, range, state, asked.first);
  case TB_FILL_EXPONENTIAL:
    return exponential(dst, type, range, state, asked.first);
  case TB_FILL_CAUCHY:
    return cauchy(dst, type, range, state, asked.first, asked.second);
  case TB_FILL_LOG_NORMAL:
    return normal("log_normal", dst, type, range, state, asked.first, asked.second);
  case TB_FILL_GEOMETRIC:
    return geometric(dst, type, range, state, asked.first);
  case TB_FILL_TRUNCATED_NORMAL:
    return truncated_normal(dst, type, range, state, asked);
  default:
    refuse("there is no distribution of kind " + std::to_string(asked.kind) + ". Give one of TB_FILL_*");
  }
}

void dropout(const void *src, void *dst, void *mask, int32_t type, Range range, State state, double keep,
             double scale) {
  require_floating("dropout", type);
  if (!(keep >= 0 && keep <= 1)) refuse("dropout that keeps " + shown(keep) + ": give a probability, 0 <= keep <= 1");
  for_floating(type, [&]<class Type>(Type) {
    run(Dropout<Type>{static_cast<const typename Type::Storage *>(src), static_cast<uint8_t *>(mask), range.first,
                      threshold(keep), static_cast<typename Type::Real>(scale)},
        dst, range, state);
  });
}

} // namespace tb::generator

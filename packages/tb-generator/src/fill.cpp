// The fills: arguments checked, then run with the processor's instructions.
#include "fill.h"

#include <algorithm>
#include <cstdio>

#include "distribution.h"
#include "element.h"
#include "instruction_set.h"
#include "philox.h"

namespace tb::generator {
namespace {

[[noreturn]] void refuse(std::string text) { throw Refusal{TB_INVALID_ARGUMENT, std::move(text)}; }

std::string number(double value) {
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

// A chunk of words at a time. Inlined, so that the conversion is compiled for the caller's instruction set.
template <class Convert> [[gnu::always_inline]] inline void fill(const Convert &convert, typename Convert::Storage *dst,
                                                                 Range range, State state, philox::Words words) {
  constexpr uint32_t per_block = 4 / Convert::words, per_chunk = chunk_words / Convert::words;
  uint32_t buffer[chunk_words];
  auto skip = static_cast<uint32_t>(range.first % per_block);
  for (uint64_t element = range.first - skip, left = range.count; left > 0; element += per_chunk, skip = 0) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(per_chunk - skip, left));
    const uint32_t used = (skip + count) * Convert::words;
    words(buffer, state.offset + element / per_block, state.seed, (used + 4 * philox::lanes - 1) / (4 * philox::lanes));
    convert(buffer + skip * Convert::words, dst, count, element + skip);
    dst += count;
    left -= count;
  }
}

#if TB_X86_SETS
template <class Convert> [[gnu::target("avx2,fma")]] void
fill_avx2(const Convert &convert, typename Convert::Storage *dst, Range range, State state) {
  fill(convert, dst, range, state, philox::words_avx2);
}
template <class Convert> [[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512")]] void
fill_avx512(const Convert &convert, typename Convert::Storage *dst, Range range, State state) {
  fill(convert, dst, range, state, philox::words_avx512);
}
#endif

template <class Convert> void run(const Convert &convert, void *dst, Range range, State state) {
  auto *elements = static_cast<typename Convert::Storage *>(dst);
#if TB_X86_SETS
  switch (instruction_set()) {
  case InstructionSet::avx512:
    return fill_avx512(convert, elements, range, state);
  case InstructionSet::avx2:
    return fill_avx2(convert, elements, range, state);
  default:
    break;
  }
#endif
  fill(convert, elements, range, state, philox::words_portable);
}

// visit(Float32{}) and so on.
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
    return !is_floating(type) ? 0 : type == TB_FLOAT64 ? 2 : 1;
  case TB_FILL_INTEGERS:
    return is_floating(type) || type == TB_INT64 ? 2 : 1;
  case TB_FILL_BERNOULLI:
    return 1;
  default:
    return 0;
  }
}

uint64_t words_needed(int32_t kind, int32_t type, uint64_t count) {
  const uint64_t words = words_per_element(kind, type) * count;
  return kind == TB_FILL_NORMAL ? words + words % 2 : words; // an odd last element uses its neighbour's word too
}

void uniform(void *dst, int32_t type, Range range, State state, double from, double to) {
  require_floating("uniform", type);
  const std::string asked = "uniform on " + number(from) + " <= x < " + number(to) + " as " + type_name(type);
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

void normal(void *dst, int32_t type, Range range, State state, double mean, double std) {
  require_floating("normal", type);
  if (!(std::isfinite(mean) && std::isfinite(std) && std >= 0))
    refuse("normal with mean " + number(mean) + " and std " + number(std) + ": give finite numbers, std >= 0");
  for_floating(type, [&]<class Type>(Type) {
    using Real = typename Type::Real;
    run(Normal<Type>{static_cast<Real>(mean), static_cast<Real>(std)}, dst, range, state);
  });
}

void exponential(void *dst, int32_t type, Range range, State state, double rate) {
  require_floating("exponential", type);
  if (!(std::isfinite(rate) && rate > 0)) refuse("exponential with rate " + number(rate) + ": give a finite rate > 0");
  for_floating(type, [&]<class Type>(Type) {
    run(Exponential<Type>{static_cast<typename Type::Real>(1 / rate)}, dst, range, state);
  });
}

void bernoulli(void *dst, int32_t type, Range range, State state, double p) {
  if (!(p >= 0 && p <= 1)) refuse("bernoulli with p = " + number(p) + ": give a probability, 0 <= p <= 1");
  const auto threshold = static_cast<uint64_t>(p * 0x1p32 + 0.5);
  switch (type) {
  case TB_FLOAT64:
    return run(Bernoulli<uint64_t>{threshold, std::bit_cast<uint64_t>(1.0)}, dst, range, state);
  case TB_FLOAT32:
    return run(Bernoulli<uint32_t>{threshold, std::bit_cast<uint32_t>(1.0f)}, dst, range, state);
  case TB_FLOAT16:
    return run(Bernoulli<uint16_t>{threshold, float16_bits(1)}, dst, range, state);
  case TB_BFLOAT16:
    return run(Bernoulli<uint16_t>{threshold, bfloat16_bits(1)}, dst, range, state);
  case TB_INT64:
    return run(Bernoulli<uint64_t>{threshold, 1}, dst, range, state);
  case TB_INT32:
    return run(Bernoulli<uint32_t>{threshold, 1}, dst, range, state);
  case TB_INT16:
    return run(Bernoulli<uint16_t>{threshold, 1}, dst, range, state);
  case TB_INT8:
  case TB_UINT8:
  case TB_BOOL:
    return run(Bernoulli<uint8_t>{threshold, 1}, dst, range, state);
  default:
    refuse("bernoulli fills elements of type TB_FLOAT32 to TB_BOOL, not " + std::to_string(type));
  }
}

void integers(void *dst, int32_t type, Range range, State state, int64_t from, uint64_t width) {
  constexpr int64_t all = std::numeric_limits<int64_t>::max();
  // Highest value of the integer types; the lowest is -highest - 1, or 0.
  constexpr int64_t highest[] = {0, all, all, all, all, all, 0x7FFFFFFF, 0x7FFF, 0x7F, 0xFF, 1};
  if (!element_size(type)) refuse("integers fills elements of type TB_FLOAT32 to TB_BOOL, not " + std::to_string(type));
  const int64_t top = highest[type], bottom = type == TB_UINT8 || type == TB_BOOL ? 0 : -top - 1;
  const bool whole = width == 0; // an interval of 2^64 integers holds every int64 whatever it starts with
  if (whole ? top != all
            : from < bottom || from > top || width - 1 > static_cast<uint64_t>(top) - static_cast<uint64_t>(from))
    refuse("integers from " + std::to_string(from) + " on, " + (whole ? "2^64" : std::to_string(width)) +
           " of them, as " + type_name(type) + ": the type (floating ones: int64) ends at " + std::to_string(bottom) +
           " and " + std::to_string(top) + ". Narrow the interval");
  const auto start = static_cast<uint64_t>(from);
  const auto small = static_cast<uint32_t>(start);
  switch (type) {
  case TB_INT64:
    return run(LargeIntegers<AsInt64>{start, width, state, {}}, dst, range, state);
  case TB_INT32:
    return run(SmallIntegers<uint32_t>{small, width, state}, dst, range, state);
  case TB_INT16:
    return run(SmallIntegers<uint16_t>{small, width, state}, dst, range, state);
  case TB_INT8:
  case TB_UINT8:
  case TB_BOOL:
    return run(SmallIntegers<uint8_t>{small, width, state}, dst, range, state);
  default:
    break;
  }
  // Exact where long double has 64 bits, and nowhere does the rounding matter to a type of 53 bits or less.
  const long double to = whole ? 0x1p63L : static_cast<long double>(from) + static_cast<long double>(width);
  auto least = static_cast<double>(whole ? std::numeric_limits<int64_t>::min() : from);
  if (!whole && static_cast<long double>(least) < static_cast<long double>(from)) least = Float64::next(least, 1);
  for_floating(type, [&]<class Type>(Type) {
    using Real = typename Type::Real;
    const double low = at_least<Type>(least), high = below<Type>(static_cast<double>(to));
    if (!(low <= high && std::isfinite(low) && std::isfinite(high)))
      refuse("integers from " + std::to_string(from) + " on, " + std::to_string(width) + " of them, as " +
             type_name(type) + ": the type has no value there. Use a type with more digits");
    run(LargeIntegers<AsFloating<Type>>{start, width, state, {static_cast<Real>(low), static_cast<Real>(high)}}, dst,
        range, state);
  });
}

} // namespace tb::generator

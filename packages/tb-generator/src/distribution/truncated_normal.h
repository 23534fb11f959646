// Normal numbers conditioned on an interval, by rejection. After Robert, "Simulation of truncated normal variables"
// (1995): proposals are normal, uniform, or, in the tail, exponential from the interval's end.
#pragma once
#include <cmath>

#include "distribution/distribution.h"
#include "distribution/integers.h"

namespace tb::generator {

struct Truncation {
  enum Proposal { normal, uniform, exponential } proposal;
  double low, high; // standardised; mirrored if the whole interval is below 0
  double rate;      // the rate of the exponential proposals
  double densest;   // the square of the point of greatest density
  bool mirrored;

  static Truncation of(double low, double high) {
    const bool mirrored = high < 0;
    if (mirrored) low = -low, high = -high, std::swap(low, high);
    // The choice affects the speed only: each proposal is accepted about half of the time or more where it is chosen.
    const bool inside = low <= 0;
    const double rate = inside ? 1 : 0.5 * (low + std::sqrt(low * low + 4));
    const bool wide = (high - low) * rate > (inside ? 2.5 : 1.5);
    const Proposal proposal = !wide ? uniform : inside ? normal : exponential;
    return {proposal, low, high, rate, inside ? 0 : low * low, mirrored};
  }

  // Makes a number of two proposals' random bits; returns whether it is accepted.
  [[gnu::always_inline]] bool draw(uint64_t first, uint64_t second, double &out) const {
    const double exponent = negative_log(first);
    if (proposal == normal) {
      const Direction<double> towards = direction(second);
      const double radius = std::sqrt(2.0 * exponent);
      out = radius * towards.cosine;
      if (out < low || out > high) out = radius * towards.sine;
      return out >= low && out <= high;
    }
    if (proposal == exponential) {
      out = exponent / rate + low;
      const double beside = out - rate;
      return out <= high && negative_log(second) >= 0.5 * beside * beside;
    }
    out = fused(number(second >> 12), 0x1p-52 * (high - low), low);
    return exponent >= 0.5 * (out * out - densest);
  }
};

template <class Type> struct TruncatedNormal {
  using Storage = typename Type::Storage;
  using Real = typename Type::Real;
  static constexpr uint32_t words = 4;
  Truncation truncation;
  State state;
  double mean, std, low, high; // low and high are values of the type
  [[gnu::always_inline]] void operator()(const uint32_t *random, Storage *dst, uint32_t count, uint64_t element) const {
    for (uint32_t i = 0; i < count; i++) {
      double value = 0;
      if (!truncation.draw(pair(random, 2 * i), pair(random, 2 * i + 1), value)) value = again(element + i);
      value = fused(truncation.mirrored ? -value : value, std, mean);
      dst[i] = Type::store(static_cast<Real>(std::clamp(value, low, high)));
    }
  }
  [[gnu::noinline]] double again(uint64_t element) const {
    double value = 0;
    for (uint32_t attempt = 1;; attempt++) {
      const philox::Block block = block_of_attempt(state, element, attempt);
      if (truncation.draw(pair(block.data(), 0), pair(block.data(), 1), value)) return value;
    }
  }
};

} // namespace tb::generator

// Element types: how they are stored, what they are computed in, and loads and stores that convert.
#pragma once

namespace tb::kernels {

// Arithmetic on 16-bit numbers is done in float. Storing rounds to nearest, ties to even.
struct Half {
  unsigned short bits;
};
struct Bfloat {
  unsigned short bits;
};

__device__ inline float widen(Bfloat value) { return float_of(static_cast<unsigned>(value.bits) << 16); }
__device__ inline Bfloat narrow_bfloat(float value) {
  const unsigned bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FC0};
  return {static_cast<unsigned short>((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16)};
}

__device__ inline float widen(Half value) {
  const unsigned sign = (value.bits & 0x8000u) << 16, rest = value.bits & 0x7FFFu;
  if (rest >= 0x7C00u) return float_of(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
  // Scaled by 2^112 the exponents agree, also those of subnormals.
  return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}
__device__ inline Half narrow_half(float value) {
  const unsigned bits = bits_of(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
  unsigned result;
  if (size > 0x7F800000u)
    result = 0x7E00u;
  else if (size >= 0x477FF000u) // 65520 and above round to infinity
    result = 0x7C00u;
  else if (size < (113u << 23)) // near 0.5 a float's last bit is a subnormal half's step, so the addition rounds
    result = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
  else
    result = (size - (112u << 23) + 0xFFFu + (size >> 13 & 1)) >> 13;
  return {static_cast<unsigned short>(sign | result)};
}

// Stored is the type of an element in memory, Math<Stored> the type that computes with it, and Sum<Stored> the type
// that adds many of them.
template <class Stored> struct Traits {
  using Math = Stored;
  using Sum = Long;
  static constexpr bool floating = false;
};
#if defined(TB_NO_FLOAT64)
using FloatSum = FloatPair;
#else
using FloatSum = double;
#endif
template <> struct Traits<float> {
  using Math = float;
  using Sum = FloatSum;
  static constexpr bool floating = true;
};
template <> struct Traits<FloatSum> {
  using Math = FloatSum;
  using Sum = FloatSum;
  static constexpr bool floating = true;
};
template <> struct Traits<Half> {
  using Math = float;
  using Sum = float;
  static constexpr bool floating = true;
};
template <> struct Traits<Bfloat> : Traits<Half> {};
template <class Stored> using Math = typename Traits<Stored>::Math;
template <class Stored> using Sum = typename Traits<Stored>::Sum;

// wide() returns the number that a stored element represents. Narrow and convert() return the element that stores a
// number.
template <class Number> __device__ inline Number wide(Number value) { return value; }
__device__ inline float wide(Half value) { return widen(value); }
__device__ inline float wide(Bfloat value) { return widen(value); }

template <class To> struct Narrow {
  // A float is converted to a small unsigned integer through a wide signed one, as PyTorch does. A plain number of 32
  // bits is not, so that one beyond its range has the bits that the CPU gives it.
  template <class From> __device__ static To from(From value) {
    constexpr bool direct = sizeof(To) == sizeof(int) && sizeof(From) == sizeof(float);
    if constexpr (Traits<From>::floating && !Traits<To>::floating && !direct)
      return static_cast<To>(static_cast<Long>(value));
    else
      return static_cast<To>(value);
  }
};
template <> struct Narrow<bool> {
  template <class From> __device__ static bool from(From value) { return value != From(0); }
};
template <> struct Narrow<Half> {
  template <class From> __device__ static Half from(From value) { return narrow_half(static_cast<float>(value)); }
};
template <> struct Narrow<Bfloat> {
  template <class From> __device__ static Bfloat from(From value) { return narrow_bfloat(static_cast<float>(value)); }
};
template <class To, class From> __device__ inline To convert(From value) { return Narrow<To>::from(wide(value)); }

template <class Stored> struct Code;
template <> struct Code<bool> { static constexpr int type = Bool; };
template <> struct Code<unsigned char> { static constexpr int type = UInt8; };
template <> struct Code<signed char> { static constexpr int type = Int8; };
template <> struct Code<short> { static constexpr int type = Int16; };
template <> struct Code<int> { static constexpr int type = Int32; };
template <> struct Code<Long> { static constexpr int type = Int64; };
template <> struct Code<Half> { static constexpr int type = Float16; };
template <> struct Code<Bfloat> { static constexpr int type = BFloat16; };
template <> struct Code<float> { static constexpr int type = Float32; };
TB_FLOAT64(template <> struct Code<double> { static constexpr int type = Float64; };)

// Calls visit(Stored *) for a type that is known only when the kernel runs.
template <class Visit> __device__ inline void visit_type(int type, const Visit &visit) {
  switch (type) {
  case Bool: return visit(static_cast<bool *>(nullptr));
  case UInt8: return visit(static_cast<unsigned char *>(nullptr));
  case Int8: return visit(static_cast<signed char *>(nullptr));
  case Int16: return visit(static_cast<short *>(nullptr));
  case Int32: return visit(static_cast<int *>(nullptr));
  case Int64: return visit(static_cast<Long *>(nullptr));
  case Float16: return visit(static_cast<Half *>(nullptr));
  case BFloat16: return visit(static_cast<Bfloat *>(nullptr));
  TB_FLOAT64(case Float64: return visit(static_cast<double *>(nullptr));)
  default: return visit(static_cast<float *>(nullptr));
  }
}

// Returns the element `offset` bytes after `data`, converted to Stored, the operator's common type.
template <class Stored> __device__ inline Stored load(const void *data, Long offset, int type) {
  const char *place = static_cast<const char *>(data) + offset;
  if (type == Code<Stored>::type) return *reinterpret_cast<const Stored *>(place);
  Stored result{};
  visit_type(type, [&]<class Type>(Type *) { result = convert<Stored>(*reinterpret_cast<const Type *>(place)); });
  return result;
}
template <class Value> __device__ inline void store(void *data, Long offset, int type, Value value) {
  char *place = static_cast<char *>(data) + offset;
  visit_type(type, [&]<class Type>(Type *) { *reinterpret_cast<Type *>(place) = convert<Type>(value); });
}

// Load and store contiguous elements of one known type.
template <class Stored> __device__ inline Math<Stored> at(const void *data, Long i) {
  return convert<Math<Stored>>(static_cast<const Stored *>(data)[i]);
}
template <class Stored, class Value> __device__ inline void put(void *data, Long i, Value value) {
  static_cast<Stored *>(data)[i] = convert<Stored>(value);
}

template <class Number> __device__ inline Number number_of(Real real) {
#if defined(TB_NO_FLOAT64)
  return static_cast<Number>(pair_of(real));
#else
  return static_cast<Number>(real);
#endif
}
template <class Number> __device__ inline Number number_of(const Scalar &scalar) {
  if constexpr (Traits<Number>::floating)
    return number_of<Number>(scalar.real);
  else
    return static_cast<Number>(scalar.integer);
}
template <> __device__ inline bool number_of<bool>(const Scalar &scalar) { // 0.5 is true
  return scalar.integer != 0 || number_of<float>(scalar.real) != 0.0f;
}

__device__ inline bool is_nan(float x) { return x != x; }
__device__ inline bool is_nan(FloatSum x) { return x != x; }
template <class Number> __device__ inline bool is_nan(Number) { return false; }

// The highest and the lowest number of a type, which are infinities for floats.
template <class Number> struct Limits {
  static constexpr bool is_signed = Number(-1) < Number(0);
  static constexpr int bits = 8 * sizeof(Number) - (is_signed ? 1 : 0);
  __device__ static Number highest() { return static_cast<Number>(~0ull >> (64 - bits)); }
  __device__ static Number lowest() { return is_signed ? static_cast<Number>(-static_cast<Long>(highest()) - 1) : 0; }
};
template <> struct Limits<bool> {
  __device__ static bool highest() { return true; }
  __device__ static bool lowest() { return false; }
};
template <> struct Limits<float> {
  __device__ static float highest() { return float_of(0x7F800000u); }
  __device__ static float lowest() { return -highest(); }
};
template <> struct Limits<FloatSum> {
  __device__ static FloatSum highest() { return Limits<float>::highest(); }
  __device__ static FloatSum lowest() { return -highest(); }
};

// Return this thread's place among all threads of a one-dimensional launch, and the number of threads.
__device__ inline Long first_element() { return static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline Long all_threads() { return static_cast<Long>(gridDim.x) * blockDim.x; }

} // namespace tb::kernels

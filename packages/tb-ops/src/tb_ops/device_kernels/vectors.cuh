// Vectors of numbers, for devices on which one thread computes with vectors (tb_device_info.vector_size).
//
// A shim whose compiler has vectors as types defines TB_VECTOR(Number, lanes), and TB_VECTOR_FMA(a, b, c) if
// tb_fast_fma is true. Without them a vector is an array.
#pragma once
#include "mathematics.cuh"

namespace tb::kernels {

template <class Number, int lanes> struct Lanes {
#if defined(TB_VECTOR)
  typedef TB_VECTOR(Number, lanes) Vector; // an alias loses the attribute
#else
  struct Vector {
    Number numbers[lanes];
    __device__ Number &operator[](int i) { return numbers[i]; }
  };
#endif

  __device__ static Vector load(const Number *from) {
    Vector out;
#if defined(TB_VECTOR)
    __builtin_memcpy(&out, from, sizeof out); // it need not be aligned
#else
    for (int i = 0; i < lanes; i++) out[i] = from[i];
#endif
    return out;
  }
  __device__ static void store(Number *to, Vector value) {
#if defined(TB_VECTOR)
    __builtin_memcpy(to, &value, sizeof value);
#else
    for (int i = 0; i < lanes; i++) to[i] = value[i];
#endif
  }
  __device__ static Vector all(Number number) {
    Vector out;
    for (int i = 0; i < lanes; i++) out[i] = number;
    return out;
  }
  __device__ static Vector add(Vector a, Vector b) {
#if defined(TB_VECTOR)
    return a + b;
#else
    for (int i = 0; i < lanes; i++) a[i] = static_cast<Number>(a[i] + b[i]);
    return a;
#endif
  }
  __device__ static Vector multiply(Vector a, Vector b) {
#if defined(TB_VECTOR)
    return a * b;
#else
    for (int i = 0; i < lanes; i++) a[i] = static_cast<Number>(a[i] * b[i]);
    return a;
#endif
  }
  // Each lane has the bits of number::multiply_add.
  __device__ static Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(TB_VECTOR) && defined(TB_VECTOR_FMA)
    if constexpr (Traits<Number>::floating && number::fast_fma)
      return TB_VECTOR_FMA(a, b, c);
    else
      return a * b + c;
#elif defined(TB_VECTOR)
    return a * b + c;
#else
    for (int i = 0; i < lanes; i++) c[i] = number::multiply_add(a[i], b[i], c[i]);
    return c;
#endif
  }
};

} // namespace tb::kernels

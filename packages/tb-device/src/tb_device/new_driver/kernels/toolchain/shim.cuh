// shim.cuh -- makes of mychip's language the one in which tb-ops' kernels are written. docs/writing-device-kernels.md of
// torch-backend says what a shim defines. tb-ops puts this file, and the headers beside it, in front of each kernel.
#pragma once
#include "mychip.cuh"

// The host runs the threads one after another, so a block has few.
#define TB_ENTRY(name, body, Arguments, threads, synchronizing)                                                        \
  static void run_entry(const Arguments arguments) { body(arguments); }                                                \
  KERNEL_NAMED(name, run_entry, synchronizing ? 4 : 32, synchronizing)

namespace tb::kernels {

inline void require(bool good, const char *text, Refused status = index_out_of_range) {
  if (!good) ::fail(status, text); // a tb_status
}
template <class Number> inline void atomic_add(Number *place, Number value) { atomicAdd(place, value); }

inline unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
#if !defined(TB_NO_FLOAT64)
inline Unsigned bits_of(double value) { return __builtin_bit_cast(Unsigned, value); }
inline double double_of(Unsigned bits) { return __builtin_bit_cast(double, bits); }
#endif
inline Unsigned high_product(Unsigned a, Unsigned b) {
  return static_cast<Unsigned>(static_cast<unsigned __int128>(a) * b >> 64);
}

} // namespace tb::kernels

#define TB_C_FUNCTION(name) __builtin_##name

constexpr bool tb_fast_fma = false;
constexpr int tb_matmul_side = 32, tb_matmul_piece = 16; // 4 threads for a tile

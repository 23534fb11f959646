// The shim for NVRTC. It is CUDA C++ itself, without a header of the toolkit.
#pragma once

// Defines the entry `name` of a module, which runs `body`, a __device__ function of one argument struct, in every
// thread. `threads` is the most that a block may have. `synchronizing` is for shims that must run the threads of a
// block side by side.
#define TB_ENTRY(name, body, Arguments, threads, synchronizing)                                                        \
  extern "C" __global__ void __launch_bounds__(threads) name(const Arguments arguments) { body(arguments); }

namespace tb::kernels {

// Ends the kernel with an error if `good` is false, as PyTorch's own CUDA kernels do.
__device__ inline void require(bool good, const char *, Refused = index_out_of_range) {
  if (!good) __trap();
}

template <class Number> __device__ inline void atomic_add(Number *place, Number value) { atomicAdd(place, value); }
__device__ inline void atomic_add(Long *place, Long value) {
  atomicAdd(reinterpret_cast<Unsigned *>(place), static_cast<Unsigned>(value));
}

__device__ inline unsigned bits_of(float value) { return __float_as_uint(value); }
__device__ inline float float_of(unsigned bits) { return __uint_as_float(bits); }
#if !defined(TB_NO_FLOAT64)
__device__ inline Unsigned bits_of(double value) { return static_cast<Unsigned>(__double_as_longlong(value)); }
__device__ inline double double_of(Unsigned bits) { return __longlong_as_double(static_cast<Long>(bits)); }
#endif
__device__ inline Unsigned high_product(Unsigned a, Unsigned b) { return __umul64hi(a, b); }

} // namespace tb::kernels

#define TB_C_FUNCTION(name) ::name

constexpr bool tb_fast_fma = true;
constexpr int tb_matmul_side = 64, tb_matmul_piece = 4; // see matmul.cuh

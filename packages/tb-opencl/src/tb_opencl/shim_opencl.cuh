// The shim for clang's front end of HIP with SPIR-V as its target: kernels in CUDA's dialect of C++ become images for
// OpenCL. It includes no header of HIP, CUDA or OpenCL. OpenCL's built-in functions are declared here, and clang knows
// them by their names.
#pragma once

#define tb_builtin __attribute__((device)) // a function of OpenCL
// Functions are inlined into kernels: some implementations of OpenCL have one copy of a local variable for all groups
// of a function that is not (pocl 3.1).
#define __device__ __attribute__((device, always_inline))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define tb_global __attribute__((address_space(1)))

tb_builtin unsigned long get_local_id(unsigned);
tb_builtin unsigned long get_group_id(unsigned);
tb_builtin unsigned long get_local_size(unsigned);
tb_builtin unsigned long get_num_groups(unsigned);
tb_builtin void barrier(unsigned flags) __attribute__((convergent));
tb_builtin unsigned long mul_hi(unsigned long, unsigned long);
// Atomic operations on global memory: not every implementation has those on generic pointers, and clang 22 does not compile
// a loop around an exchange of its own to SPIR-V.
tb_builtin int atomic_add(volatile tb_global int *, int);
tb_builtin long atom_add(volatile tb_global long *, long);
tb_builtin unsigned atomic_cmpxchg(volatile tb_global unsigned *, unsigned, unsigned);
tb_builtin unsigned long atom_cmpxchg(volatile tb_global unsigned long *, unsigned long, unsigned long);

struct tb_index {
  unsigned x, y, z;
};
#define TB_INDEX(name, function)                                                                                       \
  __device__ inline tb_index name() {                                                                                  \
    return {static_cast<unsigned>(function(0)), static_cast<unsigned>(function(1)),                                    \
            static_cast<unsigned>(function(2))};                                                                       \
  }
TB_INDEX(tb_thread_index, get_local_id)
TB_INDEX(tb_block_index, get_group_id)
TB_INDEX(tb_block_size, get_local_size)
TB_INDEX(tb_grid_size, get_num_groups)
#undef TB_INDEX
#define threadIdx (tb_thread_index())
#define blockIdx (tb_block_index())
#define blockDim (tb_block_size())
#define gridDim (tb_grid_size())
__device__ inline void __syncthreads() { barrier(3); } // of local and of global memory

// The stream's word for failures and the number of the launch, which the driver passes behind the arguments.
static __shared__ tb_global unsigned long *tb_failures;
static __shared__ unsigned long tb_launch_number;

#define TB_ENTRY(name, body, Arguments, threads, synchronizing)                                                        \
  extern "C" __global__ void __attribute__((visibility("default"))) name(                                              \
      const Arguments arguments, unsigned long *failures, unsigned long number) {                                      \
    tb_failures = (tb_global unsigned long *)failures;                                                                 \
    tb_launch_number = number;                                                                                         \
    body(arguments);                                                                                                   \
  }

// Stores `next` if the value is `seen`. Returns the value that was found.
__device__ inline unsigned tb_exchange(tb_global unsigned *place, unsigned seen, unsigned next) {
  return ::atomic_cmpxchg(place, seen, next);
}
__device__ inline unsigned long tb_exchange(tb_global unsigned long *place, unsigned long seen, unsigned long next) {
  return ::atom_cmpxchg(place, seen, next);
}

// Notes a failure of this launch; the launch of the smallest number stays. `status` is a tb_status.
__device__ inline void tb_note_failure(unsigned status) {
  const unsigned long mine = tb_launch_number | status;
  for (unsigned long seen = *tb_failures; mine < seen;) {
    const unsigned long found = tb_exchange(tb_failures, seen, mine);
    if (found == seen) return;
    seen = found;
  }
}

namespace tb::kernels {

// If `good` is false, the launch has failed. The thread continues, so it must not use the value that was checked.
__device__ inline void require(bool good, const char *, Refused status = index_out_of_range) {
  if (!good) tb_note_failure(status);
}

__device__ inline unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
__device__ inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
#if !defined(TB_NO_FLOAT64)
__device__ inline Unsigned bits_of(double value) { return __builtin_bit_cast(Unsigned, value); }
__device__ inline double double_of(Unsigned bits) { return __builtin_bit_cast(double, bits); }
#endif
__device__ inline Unsigned high_product(Unsigned a, Unsigned b) {
  return ::mul_hi(static_cast<unsigned long>(a), static_cast<unsigned long>(b));
}

__device__ inline void atomic_add(int *place, int value) { ::atomic_add((tb_global int *)place, value); }
__device__ inline void atomic_add(Long *place, Long value) {
  ::atom_add((tb_global long *)place, static_cast<long>(value));
}
template <class Bits, class Number> __device__ inline void atomic_add_bits(Number *place, Number value) {
  tb_global Bits *bits = (tb_global Bits *)place;
  for (Bits seen = *bits;;) {
    const Number sum = static_cast<Number>(__builtin_bit_cast(Number, seen) + value);
    const Bits found = tb_exchange(bits, seen, __builtin_bit_cast(Bits, sum));
    if (found == seen) return;
    seen = found;
  }
}
__device__ inline void atomic_add(float *place, float value) { atomic_add_bits<unsigned>(place, value); }
#if !defined(TB_NO_FLOAT64)
__device__ inline void atomic_add(double *place, double value) { atomic_add_bits<unsigned long>(place, value); }
#endif

} // namespace tb::kernels

#if defined(TB_NO_FLOAT64)
#define TB_DOUBLE(...)
#else
#define TB_DOUBLE(...) __VA_ARGS__
#endif
#define TB_FUNCTION_1(name)                                                                                            \
  tb_builtin float name(float);                                                                                        \
  TB_DOUBLE(tb_builtin double name(double);)                                                                           \
  namespace tb::opencl {                                                                                               \
  __device__ inline float name##f(float x) { return ::name(x); }                                                       \
  TB_DOUBLE(__device__ inline double name(double x) { return ::name(x); })                                             \
  }
#define TB_FUNCTION_2(name)                                                                                            \
  tb_builtin float name(float, float);                                                                                 \
  TB_DOUBLE(tb_builtin double name(double, double);)                                                                   \
  namespace tb::opencl {                                                                                               \
  __device__ inline float name##f(float x, float y) { return ::name(x, y); }                                           \
  TB_DOUBLE(__device__ inline double name(double x, double y) { return ::name(x, y); })                                \
  }
TB_FUNCTION_1(exp)
TB_FUNCTION_1(exp2)
TB_FUNCTION_1(expm1)
TB_FUNCTION_1(log)
TB_FUNCTION_1(log2)
TB_FUNCTION_1(log10)
TB_FUNCTION_1(log1p)
TB_FUNCTION_1(sqrt)
TB_FUNCTION_1(sin)
TB_FUNCTION_1(cos)
TB_FUNCTION_1(tan)
TB_FUNCTION_1(asin)
TB_FUNCTION_1(acos)
TB_FUNCTION_1(atan)
TB_FUNCTION_1(sinh)
TB_FUNCTION_1(cosh)
TB_FUNCTION_1(tanh)
TB_FUNCTION_1(erf)
TB_FUNCTION_1(erfc)
TB_FUNCTION_1(floor)
TB_FUNCTION_1(ceil)
TB_FUNCTION_1(trunc)
TB_FUNCTION_1(rint)
TB_FUNCTION_1(fabs)
TB_FUNCTION_2(pow)
TB_FUNCTION_2(fmod)
TB_FUNCTION_2(atan2)
tb_builtin float fma(float, float, float);
TB_DOUBLE(tb_builtin double fma(double, double, double);)
namespace tb::opencl {
__device__ inline float fmaf(float x, float y, float z) { return ::fma(x, y, z); }
TB_DOUBLE(__device__ inline double fma(double x, double y, double z) { return ::fma(x, y, z); })
} // namespace tb::opencl

#define TB_VECTOR(Number, lanes) Number __attribute__((vector_size(lanes * sizeof(Number))))
#define TB_VECTOR_FMA(a, b, c) ::fma(a, b, c)
#define TB_VECTOR_FUNCTION(Number, lanes)                                                                              \
  tb_builtin TB_VECTOR(Number, lanes) fma(TB_VECTOR(Number, lanes), TB_VECTOR(Number, lanes), TB_VECTOR(Number, lanes));
TB_VECTOR_FUNCTION(float, 8)
TB_VECTOR_FUNCTION(float, 16)
TB_DOUBLE(TB_VECTOR_FUNCTION(double, 4))
TB_DOUBLE(TB_VECTOR_FUNCTION(double, 8))
#undef TB_VECTOR_FUNCTION
#undef TB_FUNCTION_1
#undef TB_FUNCTION_2
#undef TB_DOUBLE
#define TB_C_FUNCTION(name) tb::opencl::name

constexpr bool tb_fast_fma = true;
constexpr int tb_matmul_side = 64, tb_matmul_piece = 4; // 256 threads, see matmul.cuh

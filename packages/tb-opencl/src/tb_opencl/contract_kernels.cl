// The kernels of tb/contract_kernels.h in OpenCL C 3.0: tb-device contract --driver opencl --image contract_kernels.cl
//
// Two arguments behind those of a launch are the stream's word for failures and the launch's number, a pointer to local
// memory is the launch's shared memory (src/slots/launch.cpp).
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable

#define WEIGHTS 170 // TB_CONTRACT_WEIGHTS
#define BLOCK 256   // TB_CONTRACT_BLOCK

typedef struct {
  ulong src, dst; // pointers, which OpenCL C does not allow in an argument
  uint columns, rounds;
  uint weights[WEIGHTS];
} reduction;

typedef struct {
  ulong low, high;
} wide;

#if defined(__opencl_c_program_scope_global_variables)
__global uint tb_contract_answer = 42;
#endif

__kernel void tb_contract_fill(__global uint *dst, uint value, uint count) {
  const size_t i = get_global_id(0);
  if (i < count) dst[i] = value;
}

__kernel void tb_contract_add(__global float *dst, __global const float *a, __global const float *b, uint count) {
  const size_t i = get_global_id(0);
  if (i < count) dst[i] = a[i] + b[i];
}

__kernel void tb_contract_index(__global uint *dst) { dst[get_global_id(0)] = get_group_id(0); }

__kernel void tb_contract_place(__global uint *dst) {
  const size_t place = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
  uint word = 0;
  for (uint i = 0; i < 3; ++i) word |= (uint)get_group_id(i) << 5 * i | (uint)get_local_id(i) << (15 + 5 * i);
  dst[place] = word;
}

__kernel void tb_contract_reduce(reduction given) {
  __local uint sums[BLOCK];
  __global const uint *src = (__global const uint *)given.src;
  __global uint *dst = (__global uint *)given.dst;
  const uint thread = get_local_id(0);
  for (uint round = 0; round < given.rounds; ++round) {
    const uint row = get_group_id(0) * given.rounds + round;
    uint sum = 0;
    for (uint column = thread; column < given.columns; column += get_local_size(0))
      sum += src[row * given.columns + column] * given.weights[column % WEIGHTS];
    sums[thread] = sum;
    for (uint half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (thread < half_size) sums[thread] += sums[thread + half_size];
    }
    if (thread == 0) dst[row] = sums[0];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

__kernel void tb_contract_arguments(__global ulong *dst, uchar a, ulong b, ushort c, float d, wide e, uint f,
                                    __global const uint *src, char g, long h, wide i, uint j) {
  dst[0] = a;
  dst[1] = b;
  dst[2] = c;
  dst[3] = (ulong)(d * 4);
  dst[4] = e.low;
  dst[5] = e.high;
  dst[6] = f;
  dst[7] = src[0];
  dst[8] = (ulong)(long)g;
  dst[9] = (ulong)h;
  dst[10] = i.low;
  dst[11] = i.high;
  dst[12] = j;
}

#if defined(__opencl_c_program_scope_global_variables)
__kernel void tb_contract_swap(__global uint *dst, uint value) {
  dst[0] = tb_contract_answer;
  tb_contract_answer = value;
}
#endif

__kernel void tb_contract_count(__global uint *counts, uint bins) { atomic_inc(&counts[get_global_id(0) % bins]); }

__kernel void tb_contract_reverse(__global uint *dst, __local uint *words) {
  const size_t first = get_group_id(0) * get_local_size(0), thread = get_local_id(0);
  words[thread] = dst[first + thread];
  barrier(CLK_LOCAL_MEM_FENCE);
  dst[first + thread] = words[get_local_size(0) - 1 - thread];
}

__kernel void tb_contract_check(__global uint *dst, __global const uint *indices, uint limit, __global ulong *failures,
                                ulong number) {
  const size_t i = get_global_id(0);
  const bool good = indices[i] < limit;
  dst[i] = good;
  if (!good) atom_min(failures, number | 11); // TB_OUT_OF_RANGE
}

__kernel void tb_contract_fail(__global ulong *failures, ulong number) {
  atom_min(failures, number | 13); // TB_INTERNAL
}

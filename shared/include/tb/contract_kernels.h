/* tb/contract_kernels.h -- the kernels that the contract kit launches, for a driver with the group MODULE.
 *
 * A vendor compiles them for the device, as the toolchain compiles the kernels of tb-ops, and gives the image with
 * `tb-device contract --image FILE`. The folder of the installed package tb_device.contract has them in CUDA C++
 * (kernels.cu, kernels_cuda.ptx) and in C for the host (kernels_host.c). Arguments are passed by value in this order.
 * Words are `unsigned`, of 32 bits. `i` is the number of a thread in a grid of one dimension.
 *
 *   tb_contract_fill      (unsigned *dst, unsigned value, unsigned count)   dst[i] = value where i < count
 *   tb_contract_add       (float *dst, const float *a, const float *b, unsigned count)   dst[i] = a[i] + b[i], i < count
 *   tb_contract_index     (unsigned *dst)                       dst[i] = the block's index
 *   tb_contract_place     (unsigned *dst)                       in three dimensions: a word for each thread, see below
 *   tb_contract_reduce    (tb_contract_reduction reduction)     sums of rows by shared memory and barriers, see below
 *   tb_contract_arguments (twelve arguments, see below)         dst[0 .. 12] = the values of the arguments
 *   tb_contract_swap      (unsigned *dst, unsigned value)       in one thread: dst[0] = answer, answer = value
 *   tb_contract_count     (unsigned *counts, unsigned bins)     adds 1 to counts[i % bins], atomically
 *
 * and the module's variable  unsigned tb_contract_answer = 42. An image may lack these; their cases are not offered then:
 *
 *   tb_contract_reverse   (unsigned *dst)    each block reverses its words, through shared memory of the launch's
 *                                            shared_size: a word for each thread
 *   tb_contract_check     (unsigned *dst, const unsigned *indices, unsigned limit)   requires indices[i] < limit, with
 *                                            the text "index out of range"; dst[i] = 1 where that holds, else 0
 *   tb_contract_fail      ()                 fails with TB_INTERNAL and a text
 *
 * tb_contract_place: the place of a thread in the grid is (z * height + y) * width + x, where x is
 * blockIdx.x * blockDim.x + threadIdx.x, width is gridDim.x * blockDim.x, and so on; the word is TB_CONTRACT_PLACE.
 *
 * tb_contract_reduce: block `b` sums the rows b * rounds to b * rounds + rounds - 1, one after another, through the same
 * shared array of 256 words; a block has a power of two of threads, up to 256. dst[row] is the sum over the columns of
 * src[row * columns + column] * weights[column % TB_CONTRACT_WEIGHTS], modulo 2^32. A thread adds every blockDim-th
 * column; then, in a loop with a barrier, the lower half of the threads adds what the upper half has.
 *
 * tb_contract_arguments (unsigned long long *dst, unsigned char a, unsigned long long b, unsigned short c, float d,
 *                        tb_contract_wide e, unsigned f, const unsigned *src, signed char g, long long h,
 *                        tb_contract_wide i, unsigned j)
 *   dst = {a, b, c, d * 4, e.low, e.high, f, src[0], g, h, i.low, i.high, j}, each as unsigned long long
 */
#ifndef TB_CONTRACT_KERNELS_H
#define TB_CONTRACT_KERNELS_H

#define TB_CONTRACT_WEIGHTS 170 /* so that the struct has about the size of the larger ones of tb-ops */
#define TB_CONTRACT_BLOCK 256   /* most threads of tb_contract_reduce */

/* Indices and counts below 32, 5 bits each. */
#define TB_CONTRACT_PLACE(block_x, block_y, block_z, thread_x, thread_y, thread_z)                                     \
  ((block_x) | (block_y) << 5 | (block_z) << 10 | (thread_x) << 15 | (thread_y) << 20 | (thread_z) << 25)

/* 704 bytes. */
typedef struct tb_contract_reduction {
  const unsigned *src;
  unsigned *dst;
  unsigned columns;
  unsigned rounds; /* rows of a block */
  unsigned weights[TB_CONTRACT_WEIGHTS];
} tb_contract_reduction;

typedef struct tb_contract_wide {
  unsigned long long low, high;
} tb_contract_wide;

#endif

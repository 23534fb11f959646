/* A barrier in the head of a loop, behind which the loop may end: every thread waits there as often.
 *
 * LLVM makes such loops of `for (...) { barrier; ... } barrier;`, as sums across a block have them. */
#include "opencl.h"

static const char *text = "__kernel void sums(__global const uint *in, __global uint *out) {\n"
                          "  __local uint values[256];\n"
                          "  const uint i = get_local_id(0), n = get_local_size(0);\n"
                          "  values[i] = in[get_global_id(0)];\n"
                          "  for (uint step = 1;; step *= 2) {\n"
                          "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                          "    if (step >= n) break;\n"
                          "    if (i % (2 * step) == 0) values[i] += values[i + step];\n"
                          "  }\n"
                          "  out[get_global_id(0)] = values[0];\n"
                          "}\n";

enum { groups = 64, threads = 256, count = groups * threads };

int main(void) {
  const start cl = open_device();
  cl_int code;
  static uint32_t in[count], out[count];
  for (int i = 0; i < count; ++i) in[i] = (uint32_t)(i % 7);
  const cl_object program = clCreateProgramWithSource(cl.context, 1, &text, NULL, &code);
  demand(code, "clCreateProgramWithSource");
  demand(clBuildProgram(program, 1, &cl.device, "", NULL, NULL), "clBuildProgram");
  const cl_object kernel = clCreateKernel(program, "sums", &code);
  demand(code, "clCreateKernel");
  const cl_object given = clCreateBuffer(cl.context, 1 << 5, sizeof in, in, &code); /* a copy of `in` */
  demand(code, "clCreateBuffer");
  const cl_object result = clCreateBuffer(cl.context, 1, sizeof out, NULL, &code);
  demand(code, "clCreateBuffer");
  demand(clSetKernelArg(kernel, 0, sizeof given, &given), "clSetKernelArg");
  demand(clSetKernelArg(kernel, 1, sizeof result, &result), "clSetKernelArg");
  int wrong = 0;
  for (int round = 0; round < 20; ++round) {
    const size_t global = count, local = threads;
    demand(clEnqueueNDRangeKernel(cl.queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    demand(clEnqueueReadBuffer(cl.queue, result, 1, 0, sizeof out, out, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (int group = 0; group < groups; ++group) {
      uint32_t sum = 0, same = 1;
      for (int i = 0; i < threads; ++i) sum += in[group * threads + i];
      for (int i = 0; i < threads; ++i) same &= out[group * threads + i] == sum;
      wrong += !same;
    }
  }
  printf("%d of %d groups have a wrong sum\n", wrong, 20 * groups);
  return wrong ? FAULTY : SOUND;
}

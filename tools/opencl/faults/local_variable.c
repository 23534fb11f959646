/* A local variable is one of each group, whatever its name: local_variable IMAGE, made of local_variable.ll. */
#include <string.h>

#include "opencl.h"

enum { groups = 64, threads = 256, count = groups * threads };

static cl_object load(const start *cl, const char *path) {
  static unsigned char image[1 << 16];
  FILE *file = fopen(path, "rb");
  const size_t size = file ? fread(image, 1, sizeof image, file) : 0;
  const unsigned char *bytes = image;
  const uint32_t spirv = 0x07230203;
  const int is_spirv = size > 4 && memcmp(image, &spirv, 4) == 0;
  cl_int code, state = 0;
  const cl_object program = is_spirv
                                ? clCreateProgramWithIL(cl->context, image, size, &code)
                                : clCreateProgramWithBinary(cl->context, 1, &cl->device, &size, &bytes, &state, &code);
  demand(code ? code : state, "creating the program");
  demand(clBuildProgram(program, 1, &cl->device, is_spirv ? "" : "-x spir -spir-std=1.2", NULL, NULL),
         "clBuildProgram");
  return program;
}

int main(int argc, char **argv) {
  const start cl = open_device();
  cl_int code;
  static uint32_t out[count];
  const cl_object kernel = clCreateKernel(load(&cl, argc > 1 ? argv[1] : ""), "turn", &code);
  demand(code, "clCreateKernel");
  const cl_object result = clCreateBuffer(cl.context, 1, sizeof out, NULL, &code);
  demand(code, "clCreateBuffer");
  demand(clSetKernelArg(kernel, 0, sizeof result, &result), "clSetKernelArg");
  int wrong = 0;
  for (int round = 0; round < 5 && !wrong; ++round) {
    const size_t global = count, local = threads;
    demand(clEnqueueNDRangeKernel(cl.queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    demand(clEnqueueReadBuffer(cl.queue, result, 1, 0, sizeof out, out, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (uint32_t i = 0; i < count; ++i) wrong += out[i] != (i / threads * threads + (i + 1) % threads);
  }
  printf("%d threads of a launch found another group's number\n", wrong);
  return wrong ? FAULTY : SOUND;
}

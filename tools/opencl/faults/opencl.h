/* What the programs use of OpenCL, with its own names and numbers, so that no SDK is needed; and a program's start. */
#ifndef FAULTS_OPENCL_H
#define FAULTS_OPENCL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef struct object *cl_object; /* a platform, device, context, queue, program, kernel, memory object or event */

cl_int clGetPlatformIDs(cl_uint room, cl_object *platforms, cl_uint *count);
cl_int clGetDeviceIDs(cl_object platform, cl_ulong type, cl_uint room, cl_object *devices, cl_uint *count);
cl_int clGetDeviceInfo(cl_object device, cl_uint fact, size_t size, void *value, size_t *needed);
cl_object clCreateContext(const intptr_t *properties, cl_uint count, const cl_object *devices, void *notify, void *user,
                          cl_int *code);
cl_object clCreateCommandQueueWithProperties(cl_object context, cl_object device, const cl_ulong *properties,
                                             cl_int *code);
cl_object clCreateProgramWithSource(cl_object context, cl_uint count, const char **texts, const size_t *sizes,
                                    cl_int *code);
cl_object clCreateProgramWithBinary(cl_object context, cl_uint count, const cl_object *devices, const size_t *sizes,
                                    const unsigned char **binaries, cl_int *states, cl_int *code);
cl_object clCreateProgramWithIL(cl_object context, const void *image, size_t size, cl_int *code);
cl_int clBuildProgram(cl_object program, cl_uint count, const cl_object *devices, const char *options, void *notify,
                      void *user);
cl_object clCreateKernel(cl_object program, const char *name, cl_int *code);
cl_object clCreateBuffer(cl_object context, cl_ulong flags, size_t size, void *host, cl_int *code);
cl_int clSetKernelArg(cl_object kernel, cl_uint index, size_t size, const void *value);
cl_int clEnqueueNDRangeKernel(cl_object queue, cl_object kernel, cl_uint dimensions, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint count, const cl_object *events,
                              cl_object *event);
cl_int clEnqueueReadBuffer(cl_object queue, cl_object buffer, cl_uint blocking, size_t offset, size_t size, void *out,
                           cl_uint count, const cl_object *events, cl_object *event);
cl_object clCreateUserEvent(cl_object context, cl_int *code);
cl_int clSetUserEventStatus(cl_object event, cl_int status);
cl_int clEnqueueMarkerWithWaitList(cl_object queue, cl_uint count, const cl_object *events, cl_object *event);
cl_int clWaitForEvents(cl_uint count, const cl_object *events);
cl_int clFlush(cl_object queue);

/* The program's result, of which the last line of its output tells. */
enum { SOUND = 0, FAULTY = 1, NOT_TRIED = 2 };

static inline void demand(cl_int code, const char *call) {
  if (code == 0) return;
  fprintf(stderr, "%s failed: %d\n", call, code);
  exit(NOT_TRIED);
}

/* The first device of the first platform, with a context and a queue. */
typedef struct {
  cl_object device, context, queue;
} start;

static inline start open_device(void) {
  start out;
  cl_object platform;
  cl_int code;
  demand(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  demand(clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &out.device, NULL), "clGetDeviceIDs");
  out.context = clCreateContext(NULL, 1, &out.device, NULL, NULL, &code);
  demand(code, "clCreateContext");
  out.queue = clCreateCommandQueueWithProperties(out.context, out.device, NULL, &code);
  demand(code, "clCreateCommandQueueWithProperties");
  return out;
}

#endif

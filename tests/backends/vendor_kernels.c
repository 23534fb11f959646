/* A vendor's kernels beside the cpu driver: a library that test_vendor_kernels.py compiles. Its kernels run as closures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tb/kernels.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int planned, forgotten; /* plans made and destroyed, for the tests */

static tb_kernels_host host;

/* Work in the order of a stream. */
typedef struct Work {
  void (*compute)(const struct Work *work);
  const float *first, *second;
  float *out, *workspace;
  const int64_t *indices;
  int64_t *positions;
  int64_t rows, columns, depth;
  double number;
} Work;

static tb_status run_work(void *storage, const tb_closure_context *context) {
  (void)context;
  const Work *work = storage;
  work->compute(work);
  return TB_OK;
}
static void destroy_work(void *storage) { (void)storage; }
static const tb_closure closure = {sizeof closure, TB_CLOSURE_ON_WAITER, "vendor", run_work, destroy_work};

static tb_status queue(const tb_kernel_call *call, const Work *work) {
  void *storage = NULL;
  const tb_status status = host.driver->closure_reserve(host.self, call->stream, sizeof *work, &storage);
  if (status != TB_OK) return status;
  memcpy(storage, work, sizeof *work);
  return host.driver->closure_commit(host.self, call->stream, storage, &closure);
}

static int64_t count(const tb_kernel_tensor *tensor) {
  int64_t out = 1;
  for (int32_t i = 0; i < tensor->dims; ++i) out *= tensor->sizes[i];
  return out;
}

/* ---- gelu ---- */

static void compute_gelu(const Work *work) {
  for (int64_t i = 0; i < work->rows; ++i)
    work->out[i] = 0.5f * work->first[i] * (1 + erff(work->first[i] * 0.70710678f));
}

static tb_status plan_gelu(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  (void)workspace_size;
  if (self != &host || call->outputs[0].data || call->outputs[0].bytes || call->stream) return TB_INTERNAL;
  if (call->argument_count != 2 || call->arguments[1].kind != TB_ARGUMENT_TEXT) return TB_INTERNAL;
  if (strcmp(call->arguments[1].text, "none") != 0) {
    host.set_error(TB_UNSUPPORTED, 0, "only the exact form");
    return TB_UNSUPPORTED;
  }
  int64_t *elements = malloc(sizeof *elements);
  *elements = count(call->outputs);
  *plan = elements;
  ++planned;
  return TB_OK;
}

static void forget_gelu(void *self, void *plan) {
  (void)self;
  ++forgotten;
  free(plan);
}

static tb_status run_gelu(void *self, const tb_kernel_call *call) {
  (void)self;
  const Work work = {.compute = compute_gelu,
                     .first = call->arguments[0].tensors->data,
                     .out = call->outputs->data,
                     .rows = *(const int64_t *)call->plan};
  return queue(call, &work);
}

/* ---- mm: the second matrix is transposed into the workspace first ---- */

static void compute_mm(const Work *work) {
  for (int64_t k = 0; k < work->depth; ++k)
    for (int64_t j = 0; j < work->columns; ++j)
      work->workspace[j * work->depth + k] = work->second[k * work->columns + j];
  for (int64_t i = 0; i < work->rows; ++i)
    for (int64_t j = 0; j < work->columns; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < work->depth; ++k)
        sum += work->first[i * work->depth + k] * work->workspace[j * work->depth + k];
      work->out[i * work->columns + j] = sum;
    }
}

static tb_status plan_mm(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  (void)self, (void)plan;
  *workspace_size = (uint64_t)count(call->arguments[1].tensors) * sizeof(float);
  return TB_OK;
}

static tb_status run_mm(void *self, const tb_kernel_call *call) {
  (void)self;
  const tb_kernel_tensor *first = call->arguments[0].tensors, *second = call->arguments[1].tensors;
  if (!call->workspace || call->workspace_size != (uint64_t)count(second) * sizeof(float)) return TB_INTERNAL;
  const Work work = {.compute = compute_mm,
                     .first = first->data,
                     .second = second->data,
                     .out = call->outputs->data,
                     .workspace = call->workspace,
                     .rows = first->sizes[0],
                     .depth = first->sizes[1],
                     .columns = second->sizes[1]};
  return queue(call, &work);
}

/* ---- mul: by a tensor of the same size, or by a number; operands are made dense float32 ---- */

static void compute_mul(const Work *work) {
  for (int64_t i = 0; i < work->rows; ++i)
    work->out[i] = work->first[i] * (work->second ? work->second[i] : (float)work->number);
}

static tb_status plan_mul(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  (void)self, (void)workspace_size, (void)plan;
  const tb_kernel_argument *other = &call->arguments[1];
  if (call->arguments[0].kind != TB_ARGUMENT_TENSOR) return TB_UNSUPPORTED;
  const int64_t elements = count(call->outputs);
  if (count(call->arguments[0].tensors) != elements) return TB_UNSUPPORTED;
  if (other->kind == TB_ARGUMENT_TENSOR && count(other->tensors) != elements) return TB_UNSUPPORTED;
  return TB_OK;
}

static tb_status run_mul(void *self, const tb_kernel_call *call) {
  (void)self;
  const tb_kernel_argument *other = &call->arguments[1];
  const Work work = {.compute = compute_mul,
                     .first = call->arguments[0].tensors->data,
                     .second = other->kind == TB_ARGUMENT_TENSOR ? other->tensors->data : NULL,
                     .number = other->kind == TB_ARGUMENT_NUMBER ? other->numbers->real : 0,
                     .out = call->outputs->data,
                     .rows = count(call->outputs)};
  return queue(call, &work);
}

/* ---- max over the last dimension: two outputs, of two dtypes ---- */

static void compute_max(const Work *work) {
  for (int64_t i = 0; i < work->rows; ++i) {
    int64_t best = 0;
    const float *row = work->first + i * work->columns;
    for (int64_t j = 1; j < work->columns; ++j)
      if (row[j] > row[best]) best = j;
    work->out[i] = row[best];
    work->positions[i] = best;
  }
}

static tb_status plan_max(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  (void)self, (void)workspace_size, (void)plan;
  const tb_kernel_tensor *input = call->arguments[0].tensors;
  const int64_t dim = call->arguments[1].numbers->integer;
  if (!call->arguments[1].numbers->is_integer || call->output_count != 2) return TB_INTERNAL;
  return dim == -1 || dim == input->dims - 1 ? TB_OK : TB_UNSUPPORTED;
}

static tb_status run_max(void *self, const tb_kernel_call *call) {
  (void)self;
  const tb_kernel_tensor *input = call->arguments[0].tensors;
  const int64_t columns = input->sizes[input->dims - 1];
  const Work work = {.compute = compute_max,
                     .first = input->data,
                     .out = call->outputs[0].data,
                     .positions = call->outputs[1].data,
                     .rows = count(input) / columns,
                     .columns = columns};
  return queue(call, &work);
}

/* ---- one that fails ---- */

static tb_status run_failing(void *self, const tb_kernel_call *call) {
  (void)self, (void)call;
  host.set_error(TB_INTERNAL, 17, "the vendor's library is broken");
  return TB_INTERNAL;
}

#define F32 TB_DTYPE_BIT(TB_DTYPE_FLOAT32)
#define I64 TB_DTYPE_BIT(TB_DTYPE_INT64)
#define ENTRY(text, operator, types)                                                                                   \
  .struct_size = sizeof(tb_kernel), .name = "vendor." text, .operation = "aten::" operator, .dtypes = types,           \
  .layouts = TB_LAYOUT_DENSE

static const tb_kernel kernels[] = {
    {ENTRY("gelu", "gelu.out", F32), .plan = plan_gelu, .forget = forget_gelu, .run = run_gelu},
    {ENTRY("mm", "mm.out", F32), .flags = TB_KERNEL_CAPTURABLE, .max_dims = 2, .min_elements = 16, .plan = plan_mm,
     .run = run_mm},
    {ENTRY("mul", "mul.out", F32), .flags = TB_KERNEL_MAKE_DENSE | TB_KERNEL_CONVERT, .max_dims = 3, .plan = plan_mul,
     .run = run_mul},
    {ENTRY("max", "max.dim_max", F32 | I64), .plan = plan_max, .run = run_max},
    {ENTRY("failing", "erfinv.out", F32), .run = run_failing},
    {ENTRY("unknown", "no_such_operator.out", F32), .run = run_failing},
    {ENTRY("composed", "matmul.out", F32), .run = run_failing},
    {ENTRY("functional", "relu", F32), .run = run_failing},
};

static const tb_kernel incomplete[] = {{ENTRY("incomplete", "gelu.out", F32)}};

EXPORT tb_status tb_kernels_open(const tb_kernels_host *given, tb_kernels *table) {
  host = *given;
  tb_driver_info info = {.struct_size = sizeof info};
  if (host.driver->get_info(host.self, &info) != TB_OK) return TB_INTERNAL;
  if (strcmp(info.name, "cpu") != 0) return TB_UNSUPPORTED;
  const char *fault = getenv("VENDOR_FAULT");
  if (fault && strcmp(fault, "open") == 0) {
    host.set_error(TB_UNAVAILABLE, 3, "no licence");
    return TB_UNAVAILABLE;
  }
  table->kernels = fault ? incomplete : kernels;
  table->kernel_count = fault ? 1 : sizeof kernels / sizeof *kernels;
  table->kernel_size = sizeof *kernels;
  table->self = &host;
  return TB_OK;
}

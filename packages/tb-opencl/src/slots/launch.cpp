// Launches: setting a kernel's arguments, and queueing it.
//
// Behind the arguments of the launch a kernel may have others, which the driver passes:
//   a pointer to local memory: shared_size bytes of it;
//   a pointer and a number of 64 bits: the stream's word for failures and the number of the launch (shim_opencl.cuh).
#include <cstring>

#include "opencl/failure.h"
#include "slots/modules.h"
#include "slots/streams.h"

namespace tb::opencl {
namespace {

// What the caller says of an argument, or -1.
int32_t declared_kind(const tb_launch *config, uint32_t index) {
  const void *chain = config->struct_size > offsetof(tb_launch, next) ? config->next : nullptr;
  const auto *said = static_cast<const tb_launch_arguments *>(tb_find_extension(chain, TB_EXTENSION_LAUNCH_ARGUMENTS));
  return said ? static_cast<int32_t>(said->arguments[index].kind) : -1;
}

bool is_pointer(tb_driver *self, const tb_function *function, const tb_launch *config, uint32_t index) {
  if (const int32_t kind = declared_kind(config, index); kind >= 0) return kind == TB_LAUNCH_ARGUMENT_POINTER;
  if (function->arguments[index] != ArgumentPlace::unknown) return function->arguments[index] == ArgumentPlace::pointer;
  if (config->arg_sizes[index] != sizeof(void *)) return false;
  void *value = nullptr;
  std::memcpy(&value, config->args[index], sizeof value);
  return self->memory.find(value, nullptr);
}

tb_status check_grid(tb_driver *self, const tb_function *function, const tb_launch *config, Grid *out) {
  uint64_t threads = 1;
  bool empty = false;
  for (int i = 0; i < 3; ++i) {
    out->local[i] = config->block[i];
    out->global[i] = size_t{config->grid[i]} * config->block[i];
    threads *= config->block[i];
    if (threads > UINT32_MAX) threads = UINT32_MAX;
    empty |= out->global[i] == 0;
  }
  if (empty) return fail(self->host, TB_INVALID_ARGUMENT, 0, "a grid or a block is empty");
  if (threads <= function->info.max_threads) return TB_OK;
  return fail(self->host, TB_INVALID_ARGUMENT, 0, "a block of %llu threads; the kernel allows %u",
              static_cast<unsigned long long>(threads), function->info.max_threads);
}

tb_status check_sizes(tb_driver *self, const tb_function *function, const tb_launch *config) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < config->arg_count; ++i) bytes += config->arg_sizes[i];
  const uint32_t most = self->facts[static_cast<size_t>(function->module->device)].max_argument_size;
  if (most == 0 || bytes <= most) return TB_OK;
  return fail(self->host, TB_INVALID_ARGUMENT, 0, "the arguments have %llu bytes; the device takes %u",
              static_cast<unsigned long long>(bytes), most);
}

// Sets the launch's arguments, and the size of shared memory if the kernel takes a pointer to it.
cl_int set_arguments(tb_driver *self, const tb_function *function, cl_kernel kernel, const tb_launch *config,
                     bool shares) {
  cl_int code = CL_SUCCESS;
  for (cl_uint i = 0; i < config->arg_count && code == CL_SUCCESS; ++i) {
    void *value = nullptr;
    if (is_pointer(self, function, config, i)) {
      std::memcpy(&value, config->args[i], sizeof value);
      code = self->memory.set_pointer(kernel, i, value);
    } else {
      code = self->cl.clSetKernelArg(kernel, i, config->arg_sizes[i], config->args[i]);
    }
  }
  if (!shares || code != CL_SUCCESS) return code;
  return self->cl.clSetKernelArg(kernel, config->arg_count, config->shared_size ? config->shared_size : 1, nullptr);
}

// Captures the launch, unless the stream's capture has ended.
tb_status capture_launch(tb_driver *self, tb_stream *stream, const tb_function *function, const tb_launch *config,
                         const Grid &grid, bool shares, bool reports, bool *added) {
  cl_int code = CL_SUCCESS;
  KernelCall call(self->cl, function->module->program, function->name, grid, &code);
  if (code != CL_SUCCESS) return self->failed(code, "clCreateKernel");
  if (reports) call.failure_argument = config->arg_count + shares;
  code = set_arguments(self, function, call.get(), config, shares);
  if (code != CL_SUCCESS) return self->failed(code, "setting an argument of a kernel");
  *added = self->captures.add(stream, {Node::Kind::launch, {}, std::move(call), {}});
  return TB_OK;
}

} // namespace

tb_status launch(tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
  if (const tb_status status = self->check(stream, "stream")) return status;
  if (const tb_status status = self->check(function, "function")) return status;
  if (const tb_status status = self->check(config, "config")) return status;
  Grid grid;
  if (const tb_status status = check_grid(self, function, config, &grid)) return status;
  if (const tb_status status = check_sizes(self, function, config)) return status;
  if (stream->device != function->module->device)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "the stream is one of device %d, the module of device %d",
                stream->device, function->module->device);
  const size_t given = config->arg_count, taken = function->arguments.size();
  const bool shares = taken > given && function->arguments[given] == ArgumentPlace::shared;
  const bool reports = taken == given + shares + 2;
  if (taken != given + shares && !reports)
    return fail(self->host, TB_INVALID_ARGUMENT, 0, "the kernel takes %zu arguments, and the launch has %zu", taken,
                given);
  if (config->shared_size && !shares)
    return fail(self->host, TB_UNSUPPORTED, 0,
                "a launch with shared memory of its own; OpenCL gives it to kernels only that have a pointer to local "
                "memory behind their arguments");

  if (stream->captures) {
    bool added = false;
    const tb_status status = capture_launch(self, stream, function, config, grid, shares, reports, &added);
    if (status != TB_OK || added) return status;
  }
  const Functions &cl = self->cl;
  const std::lock_guard arguments(function->mutex);
  cl_int code = set_arguments(self, function, function->kernel, config, shares);
  if (code == CL_SUCCESS) code = self->memory.reach_blocks(function->kernel, &function->known_blocks);
  if (code != CL_SUCCESS) return self->failed(code, "setting an argument of a kernel");

  const std::lock_guard order(stream->mutex);
  if (reports)
    code = stream->word->set_arguments(function->kernel, static_cast<cl_uint>(given + shares), stream->launches + 1);
  cl_event event = nullptr;
  if (code == CL_SUCCESS)
    code = cl.clEnqueueNDRangeKernel(stream->queue, function->kernel, 3, nullptr, grid.global, grid.local, 0, nullptr,
                                     &event);
  if (code != CL_SUCCESS) return self->failed(code, "clEnqueueNDRangeKernel");
  ++stream->launches;
  stream->note(self->cl, event);
  return TB_OK;
}

} // namespace tb::opencl

// Launches of kernels in stream order.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "drivers/common/error_text.h"
#include "drivers/common/host_module.h"
#include "drivers/cpu/device.h"
#include "drivers/cpu/stream/stream.h"

namespace tb::cpu {

namespace {

constexpr uint64_t value_alignment = 16; // of every argument's value, enough for any C type

uint64_t padded(uint64_t size) { return (size + value_alignment - 1) / value_alignment * value_alignment; }

struct Free {
  void operator()(void *memory) const noexcept { std::free(memory); }
};
using SharedMemory = std::unique_ptr<void, Free>;

// Followed in its storage by a pointer to each value, the sizes, and the values.
struct alignas(value_alignment) LaunchWork {
  static constexpr char name[] = "launch";
  Ref<Module> module; // also keeps the function
  const Function *function;
  SharedMemory shared;
  tb_host_kernel_call call;

  tb_status run(const tb_closure_context *context) {
    // The operation's name is the kernel's, so that a text says which of many launches failed.
    const int prefix = std::snprintf(context->error_text, context->error_capacity, "%.200s: ", function->name);
    call.error_text = context->error_text + prefix;
    call.error_capacity = context->error_capacity - static_cast<uint32_t>(prefix);
    tb_status status = TB_OK;
    for (call.index[2] = 0; call.index[2] < call.grid[2]; ++call.index[2])
      for (call.index[1] = 0; call.index[1] < call.grid[1]; ++call.index[1])
        for (call.index[0] = 0; call.index[0] < call.grid[0]; ++call.index[0])
          if ((status = function->entry(&call))) {
            if (!call.error_text[0])
              std::snprintf(call.error_text, call.error_capacity, "failed with status %d and no text", status);
            return status;
          }
    return TB_OK;
  }
};

tb_status check_size(const tb_host *host, const Function &function, const tb_launch &config) {
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (config.grid[axis] == 0 || config.block[axis] == 0)
      return fail(host, TB_INVALID_ARGUMENT,
                  "launch of %.200s: the grid is %u x %u x %u and the block %u x %u x %u; each must be at least 1",
                  function.name, config.grid[0], config.grid[1], config.grid[2], config.block[0], config.block[1],
                  config.block[2]);
    // At most max_threads + 2^32 before a factor, so the product fits.
    threads = threads > function.max_threads ? threads : threads * config.block[axis];
  }
  if (threads > function.max_threads)
    return fail(host, TB_INVALID_ARGUMENT,
                "launch of %.200s: a block of %u x %u x %u threads is more than its limit of %u (function_get_info)",
                function.name, config.block[0], config.block[1], config.block[2], function.max_threads);
  return TB_OK;
}

} // namespace

tb_status launch(Stream &stream, Function &function, const tb_launch &config) {
  const tb_host *host = stream.device().host();
  if (&function.module->device() != &stream.device())
    return fail(host, TB_INVALID_ARGUMENT, "launch of %.200s: its module is loaded on device %d, the stream is of %d",
                function.name, function.module->device().number(), stream.device().number());
  if (config.next) return fail(host, TB_UNSUPPORTED, "the CPU driver knows no extension of tb_launch (next)");
  if (const tb_status status = check_size(host, function, config)) return status;
  if (config.arg_count && (!config.args || !config.arg_sizes))
    return fail(host, TB_INVALID_ARGUMENT, "launch of %.200s: %u arguments, but %s is NULL", function.name,
                config.arg_count, config.args ? "arg_sizes" : "args");

  const uint64_t pointers = sizeof(LaunchWork), sizes = pointers + config.arg_count * sizeof(void *);
  const uint64_t values = padded(sizes + config.arg_count * sizeof(uint64_t));
  uint64_t total = values;
  for (uint32_t number = 0; number < config.arg_count; ++number) {
    if (!config.args[number])
      return fail(host, TB_INVALID_ARGUMENT, "launch of %.200s: args[%u] is NULL", function.name, number);
    if (config.arg_sizes[number] > Ring::largest)
      return fail(host, TB_OUT_OF_RANGE, "launch of %.200s: argument %u of %llu bytes is larger than half the queue",
                  function.name, number, static_cast<unsigned long long>(config.arg_sizes[number]));
    total += padded(config.arg_sizes[number]);
  }
  SharedMemory shared;
  const uint64_t shared_size = function.shared_size + config.shared_size;
  if (shared_size) {
    const bool absurd = config.shared_size > UINT64_MAX / 2;
    const uint64_t whole = (shared_size + TB_HOST_KERNEL_ALIGNMENT - 1) & ~uint64_t(TB_HOST_KERNEL_ALIGNMENT - 1);
    if (!absurd) shared.reset(std::aligned_alloc(TB_HOST_KERNEL_ALIGNMENT, whole));
    if (!shared)
      return fail(host, TB_OUT_OF_MEMORY, "launch of %.200s: no host memory for %s of shared memory", function.name,
                  ByteText(shared_size).text);
  }

  return enqueue<LaunchWork>(stream, total, [&](void *storage) noexcept {
    auto *bytes = static_cast<std::byte *>(storage);
    auto *work = new (storage) LaunchWork{Ref<Module>(function.module), &function, std::move(shared), {}};
    auto **args = reinterpret_cast<const void **>(bytes + pointers);
    auto *arg_sizes = reinterpret_cast<uint64_t *>(bytes + sizes);
    std::byte *value = bytes + values;
    for (uint32_t number = 0; number < config.arg_count; ++number) {
      args[number] = value;
      arg_sizes[number] = config.arg_sizes[number];
      std::memcpy(value, config.args[number], config.arg_sizes[number]);
      value += padded(config.arg_sizes[number]);
    }
    tb_host_kernel_call &call = work->call;
    call.struct_size = sizeof call;
    call.arg_count = config.arg_count;
    std::copy_n(config.grid, 3, call.grid);
    std::copy_n(config.block, 3, call.block);
    call.shared = work->shared.get();
    call.shared_size = shared_size;
    call.args = args;
    call.arg_sizes = arg_sizes;
  });
}

} // namespace tb::cpu

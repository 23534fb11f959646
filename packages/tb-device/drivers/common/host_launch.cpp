// Checks launches and runs the blocks of kernels on the host.
#include "drivers/common/host_launch.h"

#include <cstdio>

#include "drivers/common/error_text.h"

namespace tb::drivers {

namespace {

tb_status check_size(const tb_host *host, const Function &function, const tb_launch &config) {
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (config.grid[axis] == 0 || config.block[axis] == 0)
      return fail(host, TB_INVALID_ARGUMENT,
                  "launch of %.200s: the grid is %u x %u x %u and the block %u x %u x %u; each must be at least 1",
                  function.name, config.grid[0], config.grid[1], config.grid[2], config.block[0], config.block[1],
                  config.block[2]);
    // At most max_threads times 2^32 before a factor, so the product fits.
    threads = threads > function.max_threads ? threads : threads * config.block[axis];
  }
  if (threads > function.max_threads)
    return fail(host, TB_INVALID_ARGUMENT,
                "launch of %.200s: a block of %u x %u x %u threads is more than its limit of %u (function_get_info)",
                function.name, config.block[0], config.block[1], config.block[2], function.max_threads);
  return TB_OK;
}

} // namespace

tb_status check_launch(const Function &function, const Module::Place &place, const tb_launch &config,
                       const LaunchLimits &limits) {
  const tb_host *host = place.host;
  const Module::Place &loaded = function.module->place();
  if (loaded.owner != place.owner)
    return fail(host, TB_INVALID_ARGUMENT, "launch of %.200s: its module is loaded on device %d, the stream is of %d",
                function.name, loaded.device, place.device);
  if (const tb_status status = check_size(host, function, config)) return status;
  if (config.arg_count && (!config.args || !config.arg_sizes))
    return fail(host, TB_INVALID_ARGUMENT, "launch of %.200s: %u arguments, but %s is NULL", function.name,
                config.arg_count, config.args ? "arg_sizes" : "args");
  for (uint32_t number = 0; number < config.arg_count; ++number) {
    if (!config.args[number])
      return fail(host, TB_INVALID_ARGUMENT, "launch of %.200s: args[%u] is NULL", function.name, number);
    if (config.arg_sizes[number] > limits.largest_argument)
      return fail(host, TB_OUT_OF_RANGE, "launch of %.200s: argument %u of %llu bytes is larger than half the queue",
                  function.name, number, static_cast<unsigned long long>(config.arg_sizes[number]));
  }
  return TB_OK;
}

tb_status run_blocks(const Function &function, tb_host_kernel_call &call, const tb_closure_context &context,
                     BlockOrder order) {
  const int prefix = std::snprintf(context.error_text, context.error_capacity, "%.200s: ", function.name);
  call.error_text = context.error_text + prefix;
  call.error_capacity = context.error_capacity - static_cast<uint32_t>(prefix);
  const bool descending = order == BlockOrder::descending;
  const uint32_t *grid = call.grid;
  for (uint32_t z = 0; z < grid[2]; ++z)
    for (uint32_t y = 0; y < grid[1]; ++y)
      for (uint32_t x = 0; x < grid[0]; ++x) {
        call.index[0] = descending ? grid[0] - 1 - x : x;
        call.index[1] = descending ? grid[1] - 1 - y : y;
        call.index[2] = descending ? grid[2] - 1 - z : z;
        const tb_status status = function.entry(&call);
        if (!status) continue;
        if (!call.error_text[0])
          std::snprintf(call.error_text, call.error_capacity, "failed with status %d and no text", status);
        return status;
      }
  return TB_OK;
}

} // namespace tb::drivers

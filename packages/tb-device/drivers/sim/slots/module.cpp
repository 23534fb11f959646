// The table's functions about loadable kernels (MODULE). Images are the CPU driver's.
#include "drivers/sim/driver.h"
#include "drivers/sim/queue/launch.h"

namespace tb::sim {

namespace {

using cpu::Function;
using cpu::Module;
using cpu::Ref;

tb_status check_launch(Driver &driver, const Function &function, const Device &device, const tb_launch &config) {
  const auto refuse = [&](const std::string &what) {
    return fail(driver.host, TB_INVALID_ARGUMENT, "launch of %.200s: %s", function.name, what.c_str());
  };
  if (function.module->device().number() != device.number)
    return refuse("its module is loaded on device " + std::to_string(function.module->device().number()) +
                  ", the stream is of " + std::to_string(device.number));
  if (config.next) return fail(driver.host, TB_UNSUPPORTED, "the sim driver knows no extension of tb_launch (next)");
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (config.grid[axis] == 0 || config.block[axis] == 0)
      return refuse("a side of the grid or of the block is 0; each must be at least 1");
    // At most max_threads times 2^32, so the product fits.
    threads = threads > function.max_threads ? threads : threads * config.block[axis];
  }
  if (threads > function.max_threads)
    return refuse("a block of more threads than the limit of " + std::to_string(function.max_threads) +
                  " (function_get_info)");
  if (config.arg_count && !config.args) return refuse("args is NULL");
  if (config.arg_count && !config.arg_sizes) return refuse("arg_sizes is NULL");
  for (uint32_t number = 0; number < config.arg_count; ++number) {
    if (!config.args[number]) return refuse("args[" + std::to_string(number) + "] is NULL");
    if (config.arg_sizes[number] > Queue::largest_closure)
      return fail(driver.host, TB_OUT_OF_RANGE, "launch of %.200s: argument %u is larger than half the queue",
                  function.name, number);
  }
  constexpr uint64_t absurd = uint64_t(1) << 40;
  if (config.shared_size > absurd)
    return fail(driver.host, TB_OUT_OF_MEMORY, "launch of %.200s: no host memory for %s of shared memory",
                function.name, cpu::ByteText(config.shared_size).text);
  return TB_OK;
}

} // namespace

namespace slots {

tb_status module_load(tb_driver *self, int32_t number, const void *image, uint64_t size, const char *options,
                      tb_module **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (!driver.usable(number, &status)) return status;
    if ((status = driver.require(image, "image"))) return status;
    if ((status = driver.require(out, "out"))) return status;
    if (options && options[0])
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the sim driver has no options for images, so not \"%.80s\": pass NULL or an empty text", options);
    Ref<Module> module;
    if ((status = Module::load(driver.image_device(number), image, size, &module))) return status;
    *out = driver.add_module(std::move(module));
    return TB_OK;
  });
}

tb_status module_unload(tb_driver *self, tb_module *handle) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    if (const auto module = driver.module(handle, &status)) driver.forget_module(handle);
    return status;
  });
}

tb_status module_function(tb_driver *self, tb_module *handle, const char *name, tb_function **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto module = driver.module(handle, &status);
    if (!module) return status;
    if ((status = driver.require(name, "name"))) return status;
    if ((status = driver.require(out, "out"))) return status;
    Function *function = nullptr;
    if ((status = module->function(name, &function))) return status;
    *out = function->handle();
    return TB_OK;
  });
}

tb_status module_global(tb_driver *self, tb_module *handle, const char *name, void **out, uint64_t *out_size) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto module = driver.module(handle, &status);
    if (!module) return status;
    if ((status = driver.require(name, "name"))) return status;
    if ((status = driver.require(out, "out"))) return status;
    if ((status = driver.require(out_size, "out_size"))) return status;
    if ((status = module->global(name, out, out_size))) return status;
    driver.memory.add_variable(handle, module->device().number(), *out, *out_size);
    return TB_OK;
  });
}

tb_status function_get_info(tb_driver *self, tb_function *function, tb_function_info *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(function, "function")) return status;
    tb_function_info info = {};
    info.max_threads = Function::of(function)->max_threads;
    info.shared_size = Function::of(function)->shared_size;
    return driver.give(info, out);
  });
}

tb_status launch(tb_driver *self, tb_stream *handle, tb_function *function, const tb_launch *config) {
  return with(self, [&](Driver &driver) -> tb_status {
    tb_status status = TB_OK;
    const auto stream = driver.usable(handle, &status);
    if (!stream) return status;
    if ((status = driver.require(function, "function"))) return status;
    if ((status = driver.require(config, "config"))) return status;
    if (config->struct_size < sizeof *config)
      return fail(driver.host, TB_INVALID_ARGUMENT, "tb_launch.struct_size is %u, but its fields take %zu",
                  config->struct_size, sizeof *config);
    const Function &kernel = *Function::of(function);
    if ((status = check_launch(driver, kernel, stream->queue->device, *config))) return status;
    return driver.enqueue<LaunchOperation>(stream, kernel, *config);
  });
}

} // namespace slots
} // namespace tb::sim

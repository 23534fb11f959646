// The table's functions about loadable kernels (MODULE). Kernels run on the host, as the CPU driver's do.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "drivers/common/host_launch.h"
#include "drivers/sim/driver.h"
#include "drivers/sim/queue/launch.h"

namespace tb::drivers::sim {

namespace {

bool names(const tb_launch_argument &argument, uint64_t offset) {
  if (argument.kind == TB_LAUNCH_ARGUMENT_POINTER) return offset == 0;
  const uint32_t *offsets = argument.pointer_offsets;
  return argument.kind == TB_LAUNCH_ARGUMENT_STRUCT &&
         std::binary_search(offsets, offsets + argument.pointer_count, offset);
}

// Fails if the arguments hold an address of the driver's memory that tb_launch_arguments does not name. A number that
// happens to equal an address counts as one; that is rare.
tb_status check_named_pointers(Driver &driver, const char *kernel, const tb_launch &config) {
  const auto *said =
      static_cast<const tb_launch_arguments *>(tb_find_extension(config.next, TB_EXTENSION_LAUNCH_ARGUMENTS));
  if (!said)
    return fail(driver.host, TB_INVALID_ARGUMENT,
                "launch of %.200s says nothing of its pointers, but option named_pointers is set: append a "
                "tb_launch_arguments to tb_launch.next",
                kernel);
  for (uint32_t number = 0; number < config.arg_count; ++number)
    for (uint64_t offset = 0; offset + sizeof(uintptr_t) <= config.arg_sizes[number]; offset += sizeof(uintptr_t)) {
      uintptr_t word = 0;
      std::memcpy(&word, static_cast<const std::byte *>(config.args[number]) + offset, sizeof word);
      if (names(said->arguments[number], offset) || driver.memory.device_of(word) < 0) continue;
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "launch of %.200s: argument %u has an address of the device's memory at byte %llu, which its "
                  "tb_launch_argument does not name: add the offset to pointer_offsets",
                  kernel, number, static_cast<unsigned long long>(offset));
    }
  return TB_OK;
}

tb_status check_arguments(Driver &driver, const char *kernel, const tb_launch &config) {
  const uint64_t size = std::accumulate(config.arg_sizes, config.arg_sizes + config.arg_count, uint64_t(0));
  const uint32_t most = driver.options.max_argument_size;
  if (most && size > most)
    return fail(driver.host, TB_INVALID_ARGUMENT,
                "launch of %.200s: its arguments have %llu bytes, and the device takes %u (max_argument_size)", kernel,
                static_cast<unsigned long long>(size), most);
  return driver.options.named_pointers ? check_named_pointers(driver, kernel, config) : TB_OK;
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
    if ((status = Module::load(driver.place_of(number), image, size, &module))) return status;
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
    driver.memory.add_variable(handle, module->place().device, *out, *out_size);
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
    const Module::Place place = driver.place_of(stream->queue->device.number);
    if ((status = check_launch(kernel, place, *config, {"sim", Queue::largest_closure}))) return status;
    if ((status = check_arguments(driver, kernel.name, *config))) return status;
    // More would overflow the sum with the kernel's own shared memory.
    constexpr uint64_t most_shared = uint64_t(1) << 40; // bytes
    if (config->shared_size > most_shared)
      return fail(driver.host, TB_OUT_OF_MEMORY, "launch of %.200s: no host memory for %s of shared memory",
                  kernel.name, ByteText(config->shared_size).text);
    return driver.enqueue<LaunchOperation>(stream, kernel, *config);
  });
}

} // namespace slots
} // namespace tb::drivers::sim

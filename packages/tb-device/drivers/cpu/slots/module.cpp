// The table's functions about loadable kernels (MODULE).
#include "drivers/cpu/driver.h"
#include "drivers/cpu/stream/launch.h"

namespace tb::drivers::cpu::slots {

tb_status module_load(tb_driver *self, int32_t number, const void *image, uint64_t size, const char *options,
                      tb_module **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    Device *device = driver.device(number);
    if (!device) return TB_OUT_OF_RANGE;
    if (const tb_status status = driver.require(image, "image")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (options && options[0])
      return fail(driver.host, TB_INVALID_ARGUMENT,
                  "the CPU driver has no options for images, so not \"%.80s\": pass NULL or an empty text", options);
    Ref<Module> module;
    if (const tb_status status = Module::load(place_of(*device), image, size, &module)) return status;
    module->retain(); // the handle's
    driver.module_count.fetch_add(1);
    *out = module->handle();
    return TB_OK;
  });
}

tb_status module_unload(tb_driver *self, tb_module *module) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(module, "module")) return status;
    driver.module_count.fetch_sub(1);
    Module::of(module)->release();
    return TB_OK;
  });
}

tb_status module_function(tb_driver *self, tb_module *module, const char *name, tb_function **out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(module, "module")) return status;
    if (const tb_status status = driver.require(name, "name")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    Function *function = nullptr;
    if (const tb_status status = Module::of(module)->function(name, &function)) return status;
    *out = function->handle();
    return TB_OK;
  });
}

tb_status module_global(tb_driver *self, tb_module *module, const char *name, void **out, uint64_t *out_size) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(module, "module")) return status;
    if (const tb_status status = driver.require(name, "name")) return status;
    if (const tb_status status = driver.require(out, "out")) return status;
    if (const tb_status status = driver.require(out_size, "out_size")) return status;
    return Module::of(module)->global(name, out, out_size);
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

tb_status launch(tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(stream, "stream")) return status;
    if (const tb_status status = driver.require(function, "function")) return status;
    if (const tb_status status = driver.require(config, "config")) return status;
    if (config->struct_size < sizeof *config)
      return fail(driver.host, TB_INVALID_ARGUMENT, "tb_launch.struct_size is %u, but its fields take %zu",
                  config->struct_size, sizeof *config);
    return cpu::launch(*Stream::of(stream), *Function::of(function), *config);
  });
}

} // namespace tb::drivers::cpu::slots

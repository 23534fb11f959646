// Drivers whose modules break a rule.
#include <new>

#include "contract/mutant.h"

namespace tb::contract::modules_mutants {
namespace {

tb_status ok() { return TB_OK; }

TB_MUTANT(launch_drops_last_block, "cpu", "launch.1", "MOD-01", "a launch leaves out its last block") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    tb_launch fewer = *config;
    if (fewer.grid[0] > 1) --fewer.grid[0];
    return real().launch(self, stream, function, &fewer);
  };
}

TB_MUTANT(bad_image_not_found, "cpu", "module_load.2", "MOD-02", "a bad image is not found instead of invalid") {
  api.module_load = [](tb_driver *self, int32_t device, const void *image, uint64_t size, const char *options,
                       tb_module **out) -> tb_status {
    const tb_status status = real().module_load(self, device, image, size, options, out);
    return status == TB_INVALID_ARGUMENT ? TB_NOT_FOUND : status;
  };
}

TB_MUTANT(missing_function_given, "cpu", "module_function.2", "MOD-03", "a missing function gives another one") {
  api.module_function = [](tb_driver *self, tb_module *module, const char *name, tb_function **out) {
    const tb_status status = real().module_function(self, module, name, out);
    return status == TB_NOT_FOUND ? real().module_function(self, module, "tb_contract_fill", out) : status;
  };
}

TB_MUTANT(launch_too_many_threads, "cpu", "launch.3", "MOD-04", "more threads than the function allows are taken") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    const tb_status status = real().launch(self, stream, function, config);
    return status == TB_INVALID_ARGUMENT && config->grid[0] ? ok() : status;
  };
}

TB_MUTANT(launch_arguments_late, "cpu", "launch.2", "MOD-05", "argument values are taken when the launch runs") {
  struct Late {
    tb_driver *self;
    tb_function *function;
    tb_launch config;
  };
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    static constexpr tb_closure closure = {sizeof(tb_closure), 0, "launch",
                                           [](void *storage, const tb_closure_context *context) {
                                             const Late &late = *static_cast<Late *>(storage);
                                             return real().launch(late.self, context->stream, late.function,
                                                                  &late.config);
                                           },
                                           [](void *) {}};
    void *storage = nullptr;
    if (const tb_status status = real().closure_reserve(self, stream, sizeof(Late), &storage)) return status;
    new (storage) Late{self, function, *config};
    return real().closure_commit(self, stream, storage, &closure);
  };
}

TB_MUTANT(launch_grid_zero, "cpu", "launch.3", "MOD-06", "a grid or block of 0 launches nothing") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    for (int axis = 0; axis < 3; ++axis)
      if (!config->grid[axis] || !config->block[axis]) return ok();
    return real().launch(self, stream, function, config);
  };
}

TB_MUTANT(load_without_options_refused, "cpu", "module_load.4", "MOD-14", "options NULL are refused") {
  api.module_load = [](tb_driver *self, int32_t device, const void *image, uint64_t size, const char *options,
                       tb_module **out) -> tb_status {
    // Options that there are not: refused, with a text.
    return real().module_load(self, device, image, size, options ? options : "--none", out);
  };
}

} // namespace
} // namespace tb::contract::modules_mutants

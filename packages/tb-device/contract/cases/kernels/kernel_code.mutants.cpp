// Drivers that give kernels less than a rule says.
#include <cstring>
#include <utility>

#include "contract/mutant.h"

namespace tb::contract::kernel_code_mutants {
namespace {

tb_status ok() { return TB_OK; }

// The launch with the arguments' values changed.
tb_status launch_changed(tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config,
                         void (*change)(uint32_t number, char *value, uint64_t size)) {
  static constexpr uint32_t most = 16, room = 1024;
  static char values[most][room]; // a case launches from one thread
  const void *args[most];
  for (uint32_t i = 0; i < config->arg_count; ++i) {
    std::memcpy(values[i], config->args[i], config->arg_sizes[i]);
    change(i, values[i], config->arg_sizes[i]);
    args[i] = values[i];
  }
  tb_launch changed = *config;
  changed.args = args;
  return real().launch(self, stream, function, &changed);
}

TB_MUTANT(launch_axes_swapped, "cpu", "launch.5", "KRN-02", "the second and third dimension of the grid are swapped") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    tb_launch swapped = *config;
    std::swap(swapped.grid[1], swapped.grid[2]);
    return real().launch(self, stream, function, &swapped);
  };
}

TB_MUTANT(launch_third_dimension_ignored, "cpu", "launch.5", "KRN-02", "the grid has two dimensions only") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    tb_launch flat = *config;
    if (flat.grid[2] > 1) flat.grid[2] = 1;
    return real().launch(self, stream, function, &flat);
  };
}

TB_MUTANT(launch_threads_in_a_row, "cpu", "launch.5", "KRN-02", "a block has its threads in one dimension") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    tb_launch row = *config;
    row.block[0] *= row.block[1];
    if (row.block[1]) row.block[1] = 1;
    return real().launch(self, stream, function, &row);
  };
}

TB_MUTANT(launch_eight_arguments, "cpu", "launch.6", "KRN-03", "arguments behind the eighth are 0") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    return launch_changed(self, stream, function, config, [](uint32_t number, char *value, uint64_t size) {
      if (number >= 8) std::memset(value, 0, size);
    });
  };
}

TB_MUTANT(launch_wide_halved, "cpu", "launch.6", "KRN-03", "of an argument of 16 bytes the first 8 arrive") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    return launch_changed(self, stream, function, config, [](uint32_t, char *value, uint64_t size) {
      if (size == 16) std::memset(value + 8, 0, 8);
    });
  };
}

TB_MUTANT(launch_struct_truncated, "cpu", "launch.6", "KRN-04", "of a struct the first 512 bytes arrive") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    return launch_changed(self, stream, function, config, [](uint32_t, char *value, uint64_t size) {
      if (size > 512) std::memset(value + 512, 0, size - 512);
    });
  };
}

TB_MUTANT(functions_found_by_name, "cpu", "module_load.5", "KRN-05",
          "functions are those of the module that was asked first") {
  static tb_module *asked_first;
  asked_first = nullptr;
  api.module_function = [](tb_driver *self, tb_module *module, const char *name, tb_function **out) {
    if (!asked_first) asked_first = module;
    return real().module_function(self, asked_first, name, out);
  };
}

TB_MUTANT(global_is_a_copy, "cpu", "module_global.3", "KRN-06", "a variable's address is that of a copy") {
  static uint32_t copy;
  api.module_global = [](tb_driver *self, tb_module *module, const char *name, void **out, uint64_t *out_size) {
    const tb_status status = real().module_global(self, module, name, out, out_size);
    if (status != TB_OK) return status;
    std::memcpy(&copy, *out, sizeof copy);
    *out = &copy;
    return status;
  };
}

TB_MUTANT(kernels_see_pinned_memory_late, "cpu", "mem_alloc_host.3", "KRN-08",
          "kernels write a copy of pinned memory that the host does not see") {
  static constexpr ptrdiff_t pinned_bytes = 6000; // of the case
  static char device_side[pinned_bytes];
  static char *pinned;
  api.mem_alloc_host = [](tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out) {
    const tb_status status = real().mem_alloc_host(self, device, size, flags, out);
    if (status != TB_OK) return status;
    pinned = static_cast<char *>(*out);
    return status;
  };
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    std::memcpy(device_side, pinned, pinned_bytes);
    return launch_changed(self, stream, function, config, [](uint32_t, char *value, uint64_t size) {
      char *pointer;
      if (size != sizeof pointer) return;
      std::memcpy(&pointer, value, size);
      if (pointer < pinned || pointer >= pinned + pinned_bytes) return;
      pointer = device_side + (pointer - pinned);
      std::memcpy(value, &pointer, size);
    });
  };
}

TB_MUTANT(launch_shared_size_dropped, "cpu", "launch.4", "KRN-09", "a launch gives no shared memory of its own") {
  api.launch = [](tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config) {
    tb_launch none = *config;
    none.shared_size = 0;
    return real().launch(self, stream, function, &none);
  };
}

TB_MUTANT(check_failure_lost, "cpu", "launch.9", "KRN-10", "a check that fails in a kernel is not reported") {
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) {
    const tb_status status = real().stream_synchronize(self, stream);
    return status == TB_OUT_OF_RANGE ? ok() : status;
  };
}

TB_MUTANT(check_failure_unnamed, "cpu", "launch.9", "KRN-10", "a check that fails in a kernel is an internal error") {
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) -> tb_status {
    const tb_status status = real().stream_synchronize(self, stream);
    return status == TB_OUT_OF_RANGE ? TB_INTERNAL : status;
  };
}

} // namespace
} // namespace tb::contract::kernel_code_mutants

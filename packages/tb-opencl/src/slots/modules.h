// The functions of the table for modules and their functions.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "driver/driver.h"

namespace tb::opencl {

// Where an argument of a function is.
enum class ArgumentPlace : uint8_t { unknown, value, pointer, shared };

} // namespace tb::opencl

struct tb_function {
  tb_module *module = nullptr;
  std::string name;
  tb::opencl::cl_kernel kernel = nullptr;
  tb_function_info info{};
  std::vector<tb::opencl::ArgumentPlace> arguments;

  std::mutex mutex;          // a kernel's arguments are set one after the other
  uint64_t known_blocks = 0; // see Memory::reach_blocks
};

struct tb_module {
  tb_driver *driver = nullptr;
  int32_t device = 0;
  tb::opencl::cl_program program = nullptr;
  std::mutex mutex; // of what follows
  std::unordered_map<std::string, std::unique_ptr<tb_function>> functions;
};

namespace tb::opencl {

tb_status module_load(tb_driver *self, int32_t device, const void *image, uint64_t size, const char *options,
                      tb_module **out);
tb_status module_unload(tb_driver *self, tb_module *module);
tb_status module_function(tb_driver *self, tb_module *module, const char *name, tb_function **out);
tb_status function_get_info(tb_driver *self, tb_function *function, tb_function_info *out);
tb_status launch(tb_driver *self, tb_stream *stream, tb_function *function, const tb_launch *config);

} // namespace tb::opencl

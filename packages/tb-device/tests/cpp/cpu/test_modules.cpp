// Kernels from shared objects: loading, looking up, launching, failing, unloading.
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

namespace {

std::string read_image() {
  std::ifstream file(TB_TEST_KERNELS, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Loaded {
  OpenedDriver &driver;
  tb_module *module = nullptr;
  explicit Loaded(OpenedDriver &driver, int32_t device = 0) : driver(driver) {
    const std::string image = read_image(); // freed before the first launch
    if (driver.api.module_load(driver.self, device, image.data(), image.size(), nullptr, &module))
      throw std::runtime_error(test::take_error());
  }
  ~Loaded() {
    if (module) driver.api.module_unload(driver.self, module);
  }
  tb_function *function(const char *name) {
    tb_function *found = nullptr;
    if (driver.api.module_function(driver.self, module, name, &found)) throw std::runtime_error(test::take_error());
    return found;
  }
};

template <class... Values> tb_status launch(OpenedDriver &driver, tb_stream *stream, tb_function *function,
                                            uint32_t grid, uint32_t block, Values... values) {
  const void *args[] = {&values..., nullptr};
  const uint64_t sizes[] = {sizeof(values)..., 0};
  tb_launch config = {};
  config.struct_size = sizeof config;
  config.arg_count = sizeof...(values);
  for (int axis = 0; axis < 3; ++axis) config.grid[axis] = config.block[axis] = 1;
  config.grid[0] = grid;
  config.block[0] = block;
  config.args = args;
  config.arg_sizes = sizes;
  return driver.api.launch(driver.self, stream, function, &config);
}

} // namespace

CASE(kernels_run_over_the_whole_grid_with_the_values_of_the_call) {
  OpenedDriver driver;
  Loaded loaded(driver);
  tb_stream *stream = driver.default_stream();
  auto *data = static_cast<uint32_t *>(driver.allocate(1000 * sizeof(uint32_t)));
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  CHECK_EQUAL(launch(driver, stream, loaded.function("tb_contract_fill"), 4, 256, data, uint32_t(7), uint32_t(999)),
              TB_OK); // the arguments are out of scope before the kernel runs
  data[0] = 0, data[998] = 0, data[999] = 123;
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  for (int place : {0, 1, 500, 998}) CHECK_EQUAL(data[place], 7u);
  CHECK_EQUAL(data[999], 123u);
  CHECK_EQUAL(launch(driver, stream, loaded.function("tb_contract_index"), 10, 100, data), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  for (uint32_t place = 0; place < 1000; place += 37) CHECK_EQUAL(data[place], place / 100);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
}

CASE(bytes_that_are_no_image_are_refused_with_the_loaders_text) {
  OpenedDriver driver;
  const std::string image = read_image();
  auto *untouched = reinterpret_cast<tb_module *>(&driver);
  tb_module *module = untouched;
  const auto refusal = [&](std::string bytes, const char *options = nullptr) {
    CHECK_EQUAL(driver.api.module_load(driver.self, 0, bytes.data(), bytes.size(), options, &module),
                TB_INVALID_ARGUMENT);
    CHECK(module == untouched);
    return test::take_error();
  };
  CHECK(refusal("int main() {}").find("too short") != std::string::npos);
  CHECK(refusal(std::string(5000, 'x')).find("not an ELF file") != std::string::npos);
  CHECK(refusal(image.substr(0, image.size() / 8)).find("cut off") != std::string::npos);
  std::string changed = image;
  changed[18] ^= 0x55; // e_machine
  CHECK(refusal(changed).find("machine") != std::string::npos);
  changed = image;
  changed[20] ^= 0x55; // e_version, which only the loader checks
  const std::string text = refusal(changed);
  CHECK(text.find("version") != std::string::npos && text.find("host_kernel.h") != std::string::npos);
  CHECK(text.find("/proc") == std::string::npos);
  CHECK(refusal(image, "-O3").find("-O3") != std::string::npos);
}

CASE(only_names_that_the_image_itself_exports_are_found) {
  OpenedDriver driver;
  Loaded loaded(driver);
  tb_function *function = nullptr;
  for (const char *name : {"nothing", "malloc", "tb_contract_answer"}) {
    CHECK_EQUAL(driver.api.module_function(driver.self, loaded.module, name, &function), TB_NOT_FOUND);
    CHECK(test::take_error().find(name) != std::string::npos);
  }
  void *address = nullptr;
  uint64_t size = 0;
  for (const char *name : {"nothing", "environ", "tb_contract_fill"})
    CHECK_EQUAL(driver.api.module_global(driver.self, loaded.module, name, &address, &size), TB_NOT_FOUND);
  CHECK(!function && !address && !size);
  CHECK_EQUAL(driver.api.module_global(driver.self, loaded.module, "tb_contract_answer", &address, &size), TB_OK);
  CHECK_EQUAL(size, 4u);
  CHECK_EQUAL(*static_cast<uint32_t *>(address), 42u);
}

CASE(one_image_on_two_devices_is_two_modules) {
  OpenedDriver driver(Options{{"devices", "2"}});
  Loaded first(driver, 0), second(driver, 1);
  void *globals[2] = {};
  uint64_t size = 0;
  CHECK_EQUAL(driver.api.module_global(driver.self, first.module, "tb_contract_answer", &globals[0], &size), TB_OK);
  CHECK_EQUAL(driver.api.module_global(driver.self, second.module, "tb_contract_answer", &globals[1], &size), TB_OK);
  CHECK(globals[0] != globals[1]);
  CHECK_EQUAL(launch(driver, driver.default_stream(1), first.function("tb_contract_fail"), 1, 1), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("device 0") != std::string::npos);
}

CASE(limits_of_grid_block_and_memory_hold) {
  OpenedDriver driver;
  Loaded loaded(driver);
  tb_stream *stream = driver.default_stream();
  tb_function *fill = loaded.function("tb_contract_fill"), *failing = loaded.function("tb_contract_fail");
  CHECK(fill == loaded.function("tb_contract_fill"));
  tb_function_info info = {};
  info.struct_size = sizeof info;
  CHECK_EQUAL(driver.api.function_get_info(driver.self, fill, &info), TB_OK);
  CHECK_EQUAL(info.max_threads, 1024u);
  CHECK_EQUAL(driver.api.function_get_info(driver.self, failing, &info), TB_OK);
  CHECK_EQUAL(info.max_threads, 256u); // as tb_contract_fail_info states
  CHECK_EQUAL(info.shared_size, 32u);
  CHECK_EQUAL(launch(driver, stream, fill, 0, 1), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(launch(driver, stream, fill, 1, 0), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(launch(driver, stream, fill, 1, 1025), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("1024") != std::string::npos);
  CHECK_EQUAL(launch(driver, stream, failing, 1, 257), TB_INVALID_ARGUMENT);
  tb_launch config = {};
  config.struct_size = sizeof config;
  for (int axis = 0; axis < 3; ++axis) config.grid[axis] = 1, config.block[axis] = 1u << 22; // 2^66 threads
  CHECK_EQUAL(driver.api.launch(driver.self, stream, fill, &config), TB_INVALID_ARGUMENT);
  for (int axis = 0; axis < 3; ++axis) config.block[axis] = 1;
  config.shared_size = UINT64_MAX;
  CHECK_EQUAL(driver.api.launch(driver.self, stream, fill, &config), TB_OUT_OF_MEMORY);
  config.shared_size = 0;
  config.arg_count = 1;
  CHECK_EQUAL(driver.api.launch(driver.self, stream, fill, &config), TB_INVALID_ARGUMENT);
  config.arg_count = 0;
}

CASE(an_extension_that_the_driver_does_not_know_is_skipped) {
  OpenedDriver driver;
  Loaded loaded(driver);
  tb_stream *stream = driver.default_stream();
  auto *data = static_cast<uint32_t *>(driver.allocate(64));
  const tb_launch_argument kinds[] = {{TB_LAUNCH_ARGUMENT_POINTER, 0, nullptr}};
  const tb_launch_arguments known = {sizeof known, TB_EXTENSION_LAUNCH_ARGUMENTS, nullptr, kinds};
  const tb_extension unknown = {sizeof unknown, UINT32_MAX, &known};
  CHECK(tb_find_extension(&unknown, TB_EXTENSION_LAUNCH_ARGUMENTS) == &known);
  CHECK(tb_find_extension(&unknown, 12345) == nullptr);
  const void *args[] = {&data};
  const uint64_t sizes[] = {sizeof data};
  tb_launch config = {};
  config.struct_size = sizeof config;
  config.arg_count = 1;
  for (int axis = 0; axis < 3; ++axis) config.grid[axis] = config.block[axis] = 1;
  config.block[0] = 4;
  config.args = args, config.arg_sizes = sizes, config.next = &unknown;
  data[0] = 77;
  CHECK_EQUAL(driver.api.launch(driver.self, stream, loaded.function("tb_contract_index"), &config), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(data[0], 0u);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
}

CASE(a_failing_kernel_is_reported_once_with_its_name) {
  OpenedDriver driver;
  Loaded loaded(driver);
  tb_stream *stream = driver.default_stream();
  CHECK_EQUAL(launch(driver, stream, loaded.function("tb_contract_fail"), 3, 1), TB_OK);
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_INTERNAL);
  CHECK(test::take_error() == "launch: tb_contract_fail: block 0 fails as asked");
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
}

CASE(unload_lets_queued_launches_complete) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto *data = static_cast<uint32_t *>(driver.allocate(64));
  data[15] = 0;
  test::Gate gate;
  driver.submit(stream, [&gate] { gate.pass(); });
  {
    Loaded loaded(driver);
    CHECK_EQUAL(launch(driver, stream, loaded.function("tb_contract_fill"), 1, 16, data, uint32_t(5), uint32_t(16)),
                TB_OK);
    CHECK_EQUAL(driver.api.close(driver.self), TB_FAILED_PRECONDITION);
    CHECK(test::take_error().find("1 modules") != std::string::npos);
  }
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(data[15], 5u);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, data), TB_OK);
}

CASE(modules_load_again_and_again_under_their_own_names) {
  OpenedDriver driver;
  for (int turn = 0; turn < 50; ++turn) {
    Loaded one(driver), two(driver);
    void *globals[2] = {};
    uint64_t size = 0;
    driver.api.module_global(driver.self, one.module, "tb_contract_answer", &globals[0], &size);
    driver.api.module_global(driver.self, two.module, "tb_contract_answer", &globals[1], &size);
    CHECK(globals[0] != globals[1]);
    CHECK_EQUAL(*static_cast<uint32_t *>(globals[0]), 42u);
    *static_cast<uint32_t *>(globals[0]) = 1; // a later load must not see this value
  }
}

// MOD: loading kernels and launching them. The image is the one of tb/contract_kernels.h, made for the device.
#include <algorithm>
#include <numeric>

#include "contract/support/loaded.h"

namespace tb::contract::modules_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_MODULE;

// Fills `count` words with `value` in blocks of 32 threads.
void fill(Kit &kit, tb_stream *stream, tb_function *function, void *dst, uint32_t value, uint32_t count) {
  const Launch<void *, uint32_t, uint32_t> launch((count + 31) / 32, 32, dst, value, count);
  CHECK_OK(launch.on(kit, stream, function));
}

TB_CASE(MOD, 01, needs, "module_load.1 module_function.1 launch.1", "a kernel is loaded, found and launched") {
  constexpr uint32_t element_count = 1000; // the last block is not full
  const Module module(kit);
  Block words(kit, 4 * (element_count + 24));
  words.fill(0);
  tb_stream *stream = kit.default_stream();
  fill(kit, stream, module.function("tb_contract_fill"), words.data(), 77, element_count);
  kit.synchronize(stream);
  const auto got = read_words(kit, words.data(), element_count + 24);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i < element_count ? 77u : 0u);
}

TB_CASE(MOD, 02, needs, "module_load.2 E1", "what is no image is refused, with what the loader says") {
  auto [api, self] = driver_of(kit);
  tb_module *module = nullptr;
  std::vector<char> image(4096, 'x');
  CHECK_STATUS(api.module_load(self, 0, image.data(), image.size(), "", &module), TB_INVALID_ARGUMENT);
  CHECK(module == nullptr);
  CHECK_STATUS(api.module_load(self, 0, image.data(), 0, "", &module), TB_INVALID_ARGUMENT);
  image = image_of(kit);
  image.resize(std::min<size_t>(image.size() / 2, 600)); // cut off
  CHECK_STATUS(api.module_load(self, 0, image.data(), image.size(), "", &module), TB_INVALID_ARGUMENT);
  CHECK(module == nullptr);
}

TB_CASE(MOD, 03, needs, "module_function.2 module_global.2 E1", "an unknown function or variable is not found") {
  auto [api, self] = driver_of(kit);
  const Module module(kit);
  tb_function *function = nullptr;
  for (const char *name : {"tb_contract_absent", "", "tb_contract_fil"}) {
    CHECK_STATUS(api.module_function(self, module, name, &function), TB_NOT_FOUND);
    CHECK(function == nullptr);
  }
  if (!api.module_global) return;
  void *address = nullptr;
  uint64_t size = 5;
  CHECK_STATUS(api.module_global(self, module, "tb_contract_absent", &address, &size), TB_NOT_FOUND);
  CHECK(address == nullptr);
  CHECK_EQUAL(size, uint64_t(5));
}

TB_CASE(MOD, 04, needs, "function_get_info.1 launch.3",
        "a block has as many threads as the function says, and no more") {
  auto [api, self] = driver_of(kit);
  const Module module(kit);
  tb_function *function = module.function("tb_contract_index");
  tb_function_info info{};
  info.struct_size = sizeof info;
  CHECK_OK(api.function_get_info(self, function, &info));
  CHECK(info.max_threads >= 1);
  Block words(kit, 8 * (uint64_t(info.max_threads) + 1));
  words.fill(0xff);
  tb_stream *stream = kit.default_stream();
  const Launch<void *> too_many(1, info.max_threads + 1, words.data());
  CHECK_STATUS(too_many.on(kit, stream, function), TB_INVALID_ARGUMENT);
  Launch<void *> by_axes(1, info.max_threads, words.data());
  by_axes.config().block[2] = 2; // the product counts
  CHECK_STATUS(by_axes.on(kit, stream, function), TB_INVALID_ARGUMENT);
  kit.synchronize(stream);
  CHECK_EQUAL(read_word(kit, words.data()), UINT32_MAX);
  const Launch<void *> most(2, info.max_threads, words.data());
  CHECK_OK(most.on(kit, stream, function));
  kit.synchronize(stream);
  CHECK_EQUAL(read_word(kit, words.data() + 4 * (info.max_threads - 1)), 0u);
  CHECK_EQUAL(read_word(kit, words.data() + 4 * (2 * uint64_t(info.max_threads) - 1)), 1u);
}

TB_CASE(MOD, 05, needs, "launch.2 T5", "argument values are taken during the launch") {
  const Module module(kit);
  tb_function *function = module.function("tb_contract_fill");
  Block words(kit, 64), other(kit, 64);
  words.fill(0);
  other.fill(0);
  Stream stream(kit);
  Gate gate(kit, stream);
  OpensLater rescue(gate, too_late);
  Launch<void *, uint32_t, uint32_t> launch(1, 16, words.data(), 5, 16);
  CHECK_OK(launch.on(kit, stream, function));
  launch.values() = {other.data(), 6, 3}; // the caller's memory again
  launch.config().grid[0] = 0;
  CHECK(!rescue.opened());
  gate.open();
  stream.synchronize();
  CHECK(read_words(kit, words.data(), 16) == std::vector<uint32_t>(16, 5));
  CHECK(read_words(kit, other.data(), 16) == std::vector<uint32_t>(16, 0));
}

TB_CASE(MOD, 06, needs, "launch.3", "a grid or block of 0 is refused") {
  const Module module(kit);
  tb_function *function = module.function("tb_contract_index");
  Block words(kit, 64);
  for (int axis = 0; axis < 3; ++axis) {
    Launch<void *> launch(1, 1, words.data());
    launch.config().grid[axis] = 0;
    CHECK_STATUS(launch.on(kit, kit.default_stream(), function), TB_INVALID_ARGUMENT);
    launch.config().grid[axis] = 1;
    launch.config().block[axis] = 0;
    CHECK_STATUS(launch.on(kit, kit.default_stream(), function), TB_INVALID_ARGUMENT);
  }
}

TB_CASE(MOD, 07, needs, "module_unload.1", "launches queued before the module is unloaded still complete") {
  Block words(kit, 4 * 320);
  words.fill(0);
  Stream stream(kit);
  Gate gate(kit, stream);
  OpensLater opener(gate, soon); // unloading may wait for them
  {
    Module module(kit);
    tb_function *function = module.function("tb_contract_fill");
    for (uint32_t i = 0; i < 10; ++i) fill(kit, stream, function, words.data() + 128 * i, i + 1, 32);
  }
  gate.open();
  stream.synchronize();
  const auto got = read_words(kit, words.data(), 320);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i / 32 + 1);
}

TB_CASE(MOD, 08, needs, "module_load.1", "one image is loaded on two devices, and twice on one") {
  kit.need_devices(2);
  const Module first(kit, 0), second(kit, 1), again(kit, 0);
  const Module *modules[] = {&first, &second, &again};
  const int32_t devices[] = {0, 1, 0};
  for (uint32_t i = 0; i < 3; ++i) {
    Block words(kit, 4 * 50, devices[i]);
    tb_stream *stream = kit.default_stream(devices[i]);
    fill(kit, stream, modules[i]->function("tb_contract_fill"), words.data(), i + 80, 50);
    kit.synchronize(stream);
    CHECK(read_words(kit, words.data(), 50, devices[i]) == std::vector<uint32_t>(50, i + 80));
  }
}

TB_CASE(MOD, 09, needs, "module_global.1", "a variable has an address on the device and a size") {
  const Module module(kit);
  void *address = module.variable("tb_contract_answer", 4);
  CHECK_EQUAL(read_word(kit, address), 42u);
  write_words(kit, address, {43});
  CHECK_EQUAL(read_word(kit, address), 43u);
  const Module fresh(kit); // each load has its own
  address = fresh.variable("tb_contract_answer", 4);
  CHECK_EQUAL(read_word(kit, address), 42u);
}

TB_CASE(MOD, 10, needs, "module_load.3", "the image's memory is the caller's again after the load") {
  auto [api, self] = driver_of(kit);
  tb_module *module = nullptr;
  {
    std::vector<char> image = image_of(kit);
    CHECK_OK(api.module_load(self, 0, image.data(), image.size(), "", &module));
    std::fill(image.begin(), image.end(), char(0));
  }
  tb_function *function = nullptr;
  Block words(kit, 4 * 32);
  CHECK_OK(api.module_function(self, module, "tb_contract_fill", &function));
  fill(kit, kit.default_stream(), function, words.data(), 10, 32);
  kit.synchronize(kit.default_stream());
  CHECK_OK(api.module_unload(self, module));
  CHECK(read_words(kit, words.data(), 32) == std::vector<uint32_t>(32, 10));
}

TB_CASE(MOD, 11, needs, "launch.1 stream_create.2", "launches run in the order of the stream, with copies and sets") {
  const Module module(kit);
  tb_function *function = module.function("tb_contract_fill");
  constexpr uint32_t round_count = 100;
  Block word(kit, 4), log(kit, 8 * round_count);
  Stream stream(kit);
  for (uint32_t i = 0; i < round_count; ++i) {
    fill(kit, stream, function, word.data(), 2 * i, 1);
    copy_word(kit, stream, log.data() + 8 * i, word.data());
    set_word(kit, stream, word.data(), 2 * i + 1);
    copy_word(kit, stream, log.data() + 8 * i + 4, word.data());
  }
  stream.synchronize();
  const auto got = read_words(kit, log.data(), 2 * round_count);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i);
}

TB_CASE(MOD, 12, needs, "launch.1", "each block knows its place, and the device adds floats") {
  const Module module(kit);
  Block words(kit, 4 * 256);
  words.fill(0xff);
  tb_stream *stream = kit.default_stream();
  const Launch<void *> index(16, 16, words.data());
  CHECK_OK(index.on(kit, stream, module.function("tb_contract_index")));
  kit.synchronize(stream);
  const auto got = read_words(kit, words.data(), 256);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK_EQUAL(got[i], i / 16);

  std::vector<float> left(100), right(100), sum(100);
  std::iota(left.begin(), left.end(), 0.25f);
  std::iota(right.begin(), right.end(), 1000.5f);
  Block a(kit, 400), b(kit, 400), out(kit, 400);
  kit.to_device(a.data(), left.data(), 400);
  kit.to_device(b.data(), right.data(), 400);
  const Launch<void *, void *, void *, uint32_t> add(4, 32, out.data(), a.data(), b.data(), 100);
  CHECK_OK(add.on(kit, stream, module.function("tb_contract_add")));
  kit.to_host(sum.data(), out.data(), 400);
  for (size_t i = 0; i < 100; ++i) CHECK_EQUAL(sum[i], left[i] + right[i]);
}

TB_CASE(MOD, 13, needs, "E4 launch.1", "a kernel that fails is reported at the next synchronise, once") {
  auto [api, self] = driver_of(kit);
  const Module module(kit);
  tb_function *function = module.optional_function("tb_contract_fail");
  Block word(kit, 4);
  word.fill(0);
  Stream stream(kit);
  const Launch<> launch(1, 1);
  CHECK_OK(launch.on(kit, stream, function));
  set_word(kit, stream, word.data(), 12); // with closures it is left out, see closure_commit.6
  CHECK_STATUS(api.stream_synchronize(self, stream), TB_INTERNAL);
  CHECK_OK(api.stream_synchronize(self, stream));
  if (kit.offers(TB_GROUP_CLOSURE)) CHECK_EQUAL(read_word(kit, word.data()), 0u);
  set_word(kit, stream, word.data(), 13);
  stream.synchronize();
  CHECK_EQUAL(read_word(kit, word.data()), 13u);
}

TB_CASE(MOD, 14, needs, "module_load.4", "options NULL and an empty text are none") {
  auto [api, self] = driver_of(kit);
  const std::vector<char> image = image_of(kit);
  for (const char *options : {static_cast<const char *>(nullptr), ""}) {
    tb_module *module = nullptr;
    CHECK_OK(api.module_load(self, 0, image.data(), image.size(), options, &module));
    tb_function *function = nullptr;
    CHECK_OK(api.module_function(self, module, "tb_contract_fill", &function));
    CHECK_OK(api.module_unload(self, module));
  }
}

} // namespace
} // namespace tb::contract::modules_cases

// KRN: what kernels need of a device: places in the grid, arguments of any size, shared memory and barriers, atomics,
// variables of their module, and a way to fail.
#include <algorithm>
#include <array>

#include "contract/support/loaded.h"

namespace tb::contract::kernel_code_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_MODULE;

// A launch of more than one dimension.
struct Shape {
  std::array<uint32_t, 3> grid, block;
  uint32_t threads() const { return block[0] * block[1] * block[2]; }
  uint32_t total() const { return grid[0] * grid[1] * grid[2] * threads(); }
};

std::vector<uint32_t> places_of(const Shape &shape) {
  const auto &[grid, block] = shape;
  std::vector<uint32_t> places(shape.total());
  const uint32_t width = grid[0] * block[0], height = grid[1] * block[1];
  for (uint32_t place = 0; place < places.size(); ++place) {
    const uint32_t x = place % width, y = place / width % height, z = place / width / height;
    places[place] =
        TB_CONTRACT_PLACE(x / block[0], y / block[1], z / block[2], x % block[0], y % block[1], z % block[2]);
  }
  return places;
}

// Rows on the device and the sums that tb_contract_reduce must find.
class Rows {
public:
  Rows(Kit &kit, uint32_t blocks, uint32_t rounds, uint32_t columns, uint32_t seed)
      : src_(kit, 4 * uint64_t(blocks) * rounds * columns), dst_(kit, 4 * uint64_t(blocks) * rounds),
        sums_(blocks * rounds) {
    std::vector<uint32_t> words(blocks * rounds * columns);
    uint32_t state = seed;
    for (uint32_t &word : words) word = state = state * 1664525 + 1013904223; // of Numerical Recipes
    for (uint32_t &weight : reduction_.weights) weight = state = state * 1664525 + 1013904223;
    for (uint32_t place = 0; place < words.size(); ++place)
      sums_[place / columns] += words[place] * reduction_.weights[place % columns % TB_CONTRACT_WEIGHTS];
    write_words(kit, src_.data(), words);
    reduction_.src = reinterpret_cast<const uint32_t *>(src_.data());
    reduction_.dst = reinterpret_cast<uint32_t *>(dst_.data());
    reduction_.columns = columns;
    reduction_.rounds = rounds;
  }
  const tb_contract_reduction &reduction() const { return reduction_; }
  void *sums() const { return dst_.data(); }
  uint64_t sums_bytes() const { return 4 * sums_.size(); }
  uint64_t wrong(const std::vector<uint32_t> &got) const {
    uint64_t count = 0;
    for (size_t row = 0; row < sums_.size(); ++row) count += got[row] != sums_[row];
    return count;
  }

private:
  Block src_, dst_;
  std::vector<uint32_t> sums_;
  tb_contract_reduction reduction_{};
};

// The most threads of a block that tb_contract_reduce takes here.
uint32_t reduction_threads(Kit &kit, tb_function *function) {
  tb_function_info info{};
  info.struct_size = sizeof info;
  CHECK_OK(kit.api().function_get_info(kit.self(), function, &info));
  uint32_t threads = 1;
  while (2 * threads <= std::min<uint32_t>(info.max_threads, TB_CONTRACT_BLOCK)) threads *= 2;
  return threads;
}

TB_CASE(KRN, 01, needs, "launch.7", "blocks of many threads reduce rows by shared memory and barriers in a loop",
        .seconds = 60) {
  constexpr uint32_t blocks = 64, most = 100, least = 4;
  const double until = seconds_now() + 2; // where threads are simulated, a launch takes long
  auto [api, self] = driver_of(kit);
  const Module module(kit);
  tb_function *function = module.function("tb_contract_reduce");
  const uint32_t threads = reduction_threads(kit, function);
  const Rows rows[] = {Rows(kit, blocks, 2, 300, 1), Rows(kit, blocks, 2, 300, 2)};
  Stream streams[] = {Stream(kit), Stream(kit)}; // shared memory is no other launch's either
  uint32_t done = 0;
  for (; done < least || (done < most && seconds_now() < until); ++done) {
    std::vector<uint32_t> got[] = {std::vector<uint32_t>(2 * blocks), std::vector<uint32_t>(2 * blocks)};
    for (int i = 0; i < 2; ++i) {
      CHECK_OK(api.mem_set(self, 0, streams[i], rows[i].sums(), 0, 4, 2 * blocks));
      const Launch<tb_contract_reduction> launch(blocks, threads, rows[i].reduction());
      CHECK_OK(launch.on(kit, streams[i], function));
    }
    for (int i = 0; i < 2; ++i)
      CHECK_OK(api.mem_copy(self, 0, streams[i], got[i].data(), rows[i].sums(), rows[i].sums_bytes(),
                            TB_COPY_DEVICE_TO_HOST));
    for (int i = 0; i < 2; ++i) {
      streams[i].synchronize();
      CHECK_EQUAL(rows[i].wrong(got[i]), uint64_t(0));
    }
  }
  kit.state(std::to_string(done) + " launches of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) +
            " threads on two streams were compared");
}

TB_CASE(KRN, 02, needs, "launch.5", "blocks and threads know their place in one, two and three dimensions") {
  const Module module(kit);
  tb_stream *stream = kit.default_stream();
  const Shape shapes[] = {{{5, 1, 1}, {4, 1, 1}}, {{5, 3, 1}, {4, 2, 1}}, {{1, 3, 2}, {1, 2, 3}},
                          {{5, 3, 2}, {4, 2, 3}}, {{1, 1, 7}, {1, 1, 2}}, {{1, 7, 1}, {1, 2, 1}}};
  for (const Shape &shape : shapes) {
    Block words(kit, 4 * uint64_t(shape.total()));
    words.fill(0xff);
    Launch<void *> launch(1, 1, words.data());
    std::copy(shape.grid.begin(), shape.grid.end(), launch.config().grid);
    std::copy(shape.block.begin(), shape.block.end(), launch.config().block);
    CHECK_OK(launch.on(module, stream, "tb_contract_place"));
    kit.synchronize(stream);
    const auto got = read_words(kit, words.data(), shape.total()), want = places_of(shape);
    for (uint32_t place = 0; place < shape.total(); ++place) CHECK_EQUAL(got[place], want[place]);
  }
}

TB_CASE(KRN, 03, needs, "launch.6", "twelve arguments of one to sixteen bytes arrive whole") {
  const Module module(kit);
  Block words(kit, 13 * 8), source(kit, 4);
  words.fill(0xff);
  write_words(kit, source.data(), {0x89abcdef});
  const tb_contract_wide e{0x1122334455667788, 0x99aabbccddeeff01}, i{0xfedcba9876543210, 0x0f1e2d3c4b5a6978};
  const Launch<void *, uint8_t, uint64_t, uint16_t, float, tb_contract_wide, uint32_t, void *, int8_t, int64_t,
               tb_contract_wide, uint32_t>
      launch(1, 1, words.data(), uint8_t(0xf1), uint64_t(0xf0e1d2c3b4a59687), uint16_t(0xfedc), 2.75f, e, 0xdeadbeef,
             source.data(), int8_t(-3), int64_t(-5000000000), i, 0xcafef00d);
  CHECK_OK(launch.on(module, kit.default_stream(), "tb_contract_arguments"));
  uint64_t got[13];
  kit.to_host(got, words.data(), sizeof got);
  const uint64_t want[13] = {0xf1,
                             0xf0e1d2c3b4a59687,
                             0xfedc,
                             11,
                             e.low,
                             e.high,
                             0xdeadbeef,
                             0x89abcdef,
                             uint64_t(int64_t(-3)),
                             uint64_t(int64_t(-5000000000)),
                             i.low,
                             i.high,
                             0xcafef00d};
  for (int place = 0; place < 13; ++place) CHECK_EQUAL(got[place], want[place]);
}

TB_CASE(KRN, 04, needs, "launch.6", "a struct of 704 bytes, with pointers in it, arrives whole by value") {
  const Module module(kit);
  constexpr uint32_t count = TB_CONTRACT_WEIGHTS;
  std::vector<uint32_t> identity(count * count);
  for (uint32_t row = 0; row < count; ++row) identity[row * count + row] = 1;
  Block src(kit, 4 * identity.size()), dst(kit, 4 * count);
  write_words(kit, src.data(), identity);
  dst.fill(0xff);
  tb_contract_reduction reduction{};
  reduction.src = reinterpret_cast<const uint32_t *>(src.data());
  reduction.dst = reinterpret_cast<uint32_t *>(dst.data());
  reduction.columns = count;
  reduction.rounds = 1;
  for (uint32_t row = 0; row < count; ++row) reduction.weights[row] = 0xabcd0000 + row;
  const Launch<tb_contract_reduction> launch(count, 1, reduction); // a row for each weight
  CHECK_OK(launch.on(module, kit.default_stream(), "tb_contract_reduce"));
  kit.synchronize(kit.default_stream());
  const auto got = read_words(kit, dst.data(), count);
  for (uint32_t row = 0; row < count; ++row) CHECK_EQUAL(got[row], reduction.weights[row]);
}

TB_CASE(KRN, 05, needs, "module_load.5", "modules whose functions and variables have the same names stay apart") {
  const Module first(kit), second(kit);
  Block word(kit, 4);
  const auto swap = [&](const Module &module, uint32_t value) {
    const Launch<void *, uint32_t> launch(1, 1, word.data(), value);
    CHECK_OK(launch.on(module, kit.default_stream(), "tb_contract_swap"));
    kit.synchronize(kit.default_stream());
    return read_word(kit, word.data());
  };
  CHECK_EQUAL(swap(first, 7), 42u);
  CHECK_EQUAL(swap(second, 8), 42u);
  CHECK_EQUAL(swap(first, 9), 7u);
  CHECK_EQUAL(swap(second, 10), 8u);
}

TB_CASE(KRN, 06, needs, "module_global.3", "kernels and copies use the same variable of a module") {
  const Module module(kit);
  void *address = module.variable("tb_contract_answer", 4);
  write_words(kit, address, {100});
  Block word(kit, 4);
  const Launch<void *, uint32_t> launch(1, 1, word.data(), 101);
  CHECK_OK(launch.on(module, kit.default_stream(), "tb_contract_swap"));
  kit.synchronize(kit.default_stream());
  CHECK_EQUAL(read_word(kit, word.data()), 100u);
  CHECK_EQUAL(read_word(kit, address), 101u);
}

TB_CASE(KRN, 07, needs, "launch.8", "atomic additions of many blocks and of several streams all count") {
  constexpr uint32_t blocks = 64, threads = 32, bins = 3, stream_total = 4, rounds = 20;
  const Module module(kit);
  Block counts(kit, 4 * bins);
  counts.fill(0);
  std::vector<std::unique_ptr<Stream>> streams;
  for (uint32_t i = 0; i < stream_total; ++i) streams.push_back(std::make_unique<Stream>(kit));
  const Launch<void *, uint32_t> launch(blocks, threads, counts.data(), bins);
  tb_function *function = module.function("tb_contract_count");
  for (uint32_t round = 0; round < rounds; ++round)
    for (const auto &stream : streams) CHECK_OK(launch.on(kit, *stream, function));
  for (const auto &stream : streams) stream->synchronize();
  const auto got = read_words(kit, counts.data(), bins);
  for (uint32_t bin = 0; bin < bins; ++bin)
    CHECK_EQUAL(got[bin], stream_total * rounds * ((blocks * threads + bins - 1 - bin) / bins));
}

TB_CASE(KRN, 08, needs | TB_GROUP_PIN, "mem_alloc_host.3",
        "kernels read and write pinned memory by the host's pointer") {
  auto [api, self] = driver_of(kit);
  constexpr uint32_t count = 500;
  const Module module(kit);
  void *pinned = nullptr;
  CHECK_OK(api.mem_alloc_host(self, 0, 3 * count * sizeof(float), 0, &pinned));
  const std::unique_ptr<void, std::function<void(void *)>> owner(
      pinned, [api = &api, self = self](void *memory) { api->mem_free_host(self, memory); });
  auto *a = static_cast<float *>(pinned), *b = a + count, *sum = b + count;
  for (uint32_t i = 0; i < count; ++i) {
    a[i] = 0.5f + float(i);
    b[i] = 1000;
    sum[i] = 0;
  }
  const Launch<void *, void *, void *, uint32_t> launch((count + 31) / 32, 32, sum, a, b, count);
  CHECK_OK(launch.on(module, kit.default_stream(), "tb_contract_add"));
  kit.synchronize(kit.default_stream());
  for (uint32_t i = 0; i < count; ++i) CHECK_EQUAL(sum[i], 1000.5f + float(i));
}

TB_CASE(KRN, 09, needs, "launch.4", "each block has the shared memory that the launch asks for") {
  const Module module(kit);
  tb_function *function = module.optional_function("tb_contract_reverse");
  constexpr uint32_t blocks = 8;
  for (const uint32_t threads : {1u, 32u}) {
    std::vector<uint32_t> words(blocks * threads);
    for (uint32_t i = 0; i < words.size(); ++i) words[i] = i;
    Block block(kit, 4 * words.size());
    write_words(kit, block.data(), words);
    Launch<void *> launch(blocks, threads, block.data());
    launch.config().shared_size = 4 * threads;
    CHECK_OK(launch.on(kit, kit.default_stream(), function));
    kit.synchronize(kit.default_stream());
    const auto got = read_words(kit, block.data(), words.size());
    for (uint32_t i = 0; i < words.size(); ++i) CHECK_EQUAL(got[i], i / threads * threads + threads - 1 - i % threads);
  }
}

TB_CASE(KRN, 10, needs, "launch.9 E4", "a check that fails in a kernel fails the launch", .own_process = true) {
  auto [api, self] = driver_of(kit);
  const Module module(kit);
  tb_function *function = module.optional_function("tb_contract_check");
  constexpr uint32_t count = 64;
  Block indices(kit, 4 * count), good(kit, 4 * count);
  std::vector<uint32_t> words(count);
  for (uint32_t i = 0; i < count; ++i) words[i] = i;
  write_words(kit, indices.data(), words);
  Stream stream(kit);
  const auto check = [&](uint32_t limit) {
    const Launch<void *, void *, uint32_t> launch(2, count / 2, good.data(), indices.data(), limit);
    CHECK_OK(launch.on(kit, stream, function));
    return api.stream_synchronize(self, stream);
  };
  CHECK_OK(check(count));
  for (const uint32_t limit : {count - 1, 0u}) { // one thread of the last block, and all threads
    const tb_status status = check(limit);
    if (status == TB_DEVICE_LOST) throw NotOffered("a failing kernel takes its device with it");
    CHECK_STATUS(status, TB_OUT_OF_RANGE);
    CHECK_OK(api.stream_synchronize(self, stream)); // reported once
    CHECK_OK(check(count));
    CHECK(read_words(kit, good.data(), count) == std::vector<uint32_t>(count, 1));
  }
}

} // namespace
} // namespace tb::contract::kernel_code_cases

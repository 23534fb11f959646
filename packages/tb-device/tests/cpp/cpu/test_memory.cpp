// Blocks: alignment, limits, figures in error texts, what a pointer is, pinned and registered memory.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

namespace {
constexpr uint64_t mi_b = uint64_t(1) << 20;

uint64_t free_bytes(OpenedDriver &driver, int32_t device = 0) {
  uint64_t free = 0, total = 0;
  if (driver.api.device_memory_info(driver.self, device, &free, &total)) throw std::runtime_error(test::take_error());
  return free;
}
tb_pointer_info info_of(OpenedDriver &driver, const void *pointer) {
  tb_pointer_info info = {};
  info.struct_size = sizeof info;
  if (driver.api.mem_get_info(driver.self, pointer, &info)) throw std::runtime_error(test::take_error());
  return info;
}
char *bytes(void *pointer) { return static_cast<char *>(pointer); }
} // namespace

CASE(free_memory_is_what_other_programs_left_unless_the_size_was_chosen) {
  OpenedDriver driver;
  tb_device_info info = {};
  info.struct_size = sizeof info;
  CHECK_EQUAL(driver.api.device_get_info(driver.self, 0, &info), TB_OK);
  CHECK(free_bytes(driver) > 0);
  CHECK(free_bytes(driver) < info.total_memory);
  OpenedDriver chosen(Options{{"memory", "64M"}});
  CHECK_EQUAL(free_bytes(chosen), 64 * mi_b);
}

CASE(blocks_are_aligned_distinct_and_wholly_usable) {
  OpenedDriver driver;
  std::vector<std::pair<char *, uint64_t>> blocks;
  for (uint64_t size : {uint64_t(1), uint64_t(7), uint64_t(63), uint64_t(64), uint64_t(4097), 2 * mi_b - 1, 2 * mi_b,
                        2 * mi_b + 1, 9 * mi_b + 5}) {
    char *block = bytes(driver.allocate(size));
    CHECK_EQUAL(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    std::memset(block, 0x5a, size);
    blocks.emplace_back(block, size);
  }
  for (int number = 0; number < 10000; ++number) blocks.emplace_back(bytes(driver.allocate(64)), 64);
  std::sort(blocks.begin(), blocks.end());
  for (size_t place = 1; place < blocks.size(); ++place)
    CHECK(blocks[place - 1].first + blocks[place - 1].second <= blocks[place].first);
  for (const auto &[block, size] : blocks) CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(size_zero_gives_a_unique_pointer_to_free) {
  OpenedDriver driver;
  void *one = driver.allocate(0), *two = driver.allocate(0);
  CHECK(one && two && one != two);
  CHECK_EQUAL(info_of(driver, one).size, 0u);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, one), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, two), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, nullptr), TB_OK);
}

CASE(the_limit_holds_with_figures_and_the_device_stays_usable) {
  OpenedDriver driver(Options{{"memory", "64M"}, {"devices", "2"}});
  CHECK_EQUAL(free_bytes(driver), 64 * mi_b);
  void *block = driver.allocate(40 * mi_b);
  CHECK_EQUAL(free_bytes(driver), 24 * mi_b);
  void *untouched = &driver;
  CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, 30 * mi_b, 0, &untouched), TB_OUT_OF_MEMORY);
  CHECK(untouched == &driver);
  const std::string text = test::take_error();
  for (const char *part : {"30.00 MiB", "64.00 MiB", "40.00 MiB", "device 0"})
    CHECK(text.find(part) != std::string::npos);
  void *exact = driver.allocate(24 * mi_b);
  CHECK_EQUAL(free_bytes(driver), 0u);
  CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, 1, 0, &untouched), TB_OUT_OF_MEMORY);
  void *other = driver.allocate(64 * mi_b, 1); // each device has its own limit
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, exact), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 1, other), TB_OK);
  CHECK_EQUAL(free_bytes(driver), 64 * mi_b);
  CHECK_EQUAL(free_bytes(driver, 1), 64 * mi_b);
}

CASE(absurd_sizes_are_out_of_memory) {
  OpenedDriver driver;
  const uint64_t before = free_bytes(driver);
  for (uint64_t size : {uint64_t(1) << 60, UINT64_MAX, UINT64_MAX - 63}) {
    void *untouched = &driver;
    CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, size, 0, &untouched), TB_OUT_OF_MEMORY);
    CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, size, 0, &untouched), TB_OUT_OF_MEMORY);
    CHECK(untouched == &driver);
    CHECK(test::take_error().find("EiB") != std::string::npos);
  }
  CHECK_EQUAL(free_bytes(driver), before);
}

CASE(eight_threads_never_pass_the_limit_and_give_everything_back) {
  OpenedDriver driver(Options{{"memory", "1M"}});
  std::atomic<int> refused{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      std::vector<void *> mine;
      for (int turn = 0; turn < 500; ++turn) {
        void *block = nullptr;
        const tb_status status = driver.api.mem_alloc(driver.self, 0, 8192, 0, &block);
        if (status == TB_OK) {
          std::memset(block, thread, 8192);
          mine.push_back(block);
        } else {
          refused += status == TB_OUT_OF_MEMORY;
          wrong += status != TB_OUT_OF_MEMORY;
          for (void *one : mine) wrong += driver.api.mem_free(driver.self, 0, one) != TB_OK;
          mine.clear(); // one thread alone reaches the limit too
        }
        uint64_t free = 0, total = 0;
        driver.api.device_memory_info(driver.self, 0, &free, &total);
        wrong += free > total;
      }
      for (void *one : mine) wrong += driver.api.mem_free(driver.self, 0, one) != TB_OK;
    });
  for (auto &thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
  CHECK(refused.load() > 0);
  CHECK_EQUAL(free_bytes(driver), mi_b);
}

CASE(freeing_what_is_not_a_block_is_refused_with_the_reason) {
  OpenedDriver driver(Options{{"devices", "2"}});
  char *block = bytes(driver.allocate(1000));
  void *pinned = nullptr;
  CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, 100, 0, &pinned), TB_OK);
  int local = 0;
  const auto refused = [&](tb_status status, const char *part) {
    return status == TB_INVALID_ARGUMENT && test::take_error().find(part) != std::string::npos;
  };
  CHECK(refused(driver.api.mem_free(driver.self, 0, &local), "not allocated"));
  CHECK(refused(driver.api.mem_free(driver.self, 0, block + 1), "inside"));
  CHECK(refused(driver.api.mem_free(driver.self, 1, block), "belongs to device 0"));
  CHECK(refused(driver.api.mem_free(driver.self, 0, pinned), "mem_free_host"));
  CHECK(refused(driver.api.mem_free_host(driver.self, block), "mem_free"));
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  CHECK(refused(driver.api.mem_free(driver.self, 0, block), "free already"));
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, pinned), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, nullptr), TB_OK);
  void *untouched = &local;
  CHECK_EQUAL(driver.api.mem_alloc(driver.self, 0, 1, 4, &untouched), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, 1, 4, &untouched), TB_INVALID_ARGUMENT);
  CHECK(untouched == &local);
}

CASE(a_pointer_inside_a_block_gives_the_whole_block) {
  OpenedDriver driver(Options{{"devices", "2"}});
  char *block = bytes(driver.allocate(5000, 1));
  void *pinned = nullptr;
  CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, 300, 0, &pinned), TB_OK);
  for (int offset : {0, 1, 4999}) {
    const tb_pointer_info info = info_of(driver, block + offset);
    CHECK(info.base == block);
    CHECK_EQUAL(info.size, 5000u);
    CHECK_EQUAL(info.device, 1);
    CHECK_EQUAL(info.kind, TB_POINTER_DEVICE);
  }
  CHECK_EQUAL(info_of(driver, bytes(pinned) + 299).kind, TB_POINTER_HOST_PINNED);
  CHECK(info_of(driver, bytes(pinned) + 299).base == pinned);
  tb_pointer_info info = {};
  info.struct_size = sizeof info;
  info.size = 77;
  CHECK_EQUAL(driver.api.mem_get_info(driver.self, block + 5000, &info), TB_NOT_FOUND);
  CHECK_EQUAL(driver.api.mem_get_info(driver.self, &info, &info), TB_NOT_FOUND);
  CHECK_EQUAL(driver.api.mem_get_info(driver.self, nullptr, &info), TB_NOT_FOUND);
  CHECK_EQUAL(info.size, 77u);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 1, block), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, pinned), TB_OK);
}

CASE(registered_host_memory_is_known_and_overlaps_are_refused) {
  OpenedDriver driver;
  std::vector<char> memory(10000);
  char *start = memory.data() + 1000;
  CHECK_EQUAL(driver.api.mem_register_host(driver.self, 0, start, 5000, 0), TB_OK);
  CHECK_EQUAL(info_of(driver, start + 4999).kind, TB_POINTER_HOST_PINNED);
  for (const auto &[offset, size] : {std::pair{0, 5000}, {-500, 501}, {4999, 10}, {-500, 9000}, {10, 20}})
    CHECK_EQUAL(driver.api.mem_register_host(driver.self, 0, start + offset, size, 0), TB_ALREADY_EXISTS);
  CHECK_EQUAL(driver.api.mem_register_host(driver.self, 0, start + 5000, 100, 0), TB_OK);
  CHECK_EQUAL(driver.api.mem_register_host(driver.self, 0, start - 100, 100, 0), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, start), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.mem_unregister_host(driver.self, start + 1), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.mem_register_host(driver.self, 0, start + 6000, 0, 0), TB_INVALID_ARGUMENT);
  for (int offset : {0, 5000, -100}) CHECK_EQUAL(driver.api.mem_unregister_host(driver.self, start + offset), TB_OK);
}

CASE(pinned_memory_is_not_charged_to_the_device) {
  OpenedDriver driver(Options{{"memory", "1M"}});
  void *pinned = nullptr;
  CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, 8 * mi_b, 0, &pinned), TB_OK);
  CHECK_EQUAL(free_bytes(driver), mi_b);
  std::memset(pinned, 1, 8 * mi_b);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, pinned), TB_OK);
}

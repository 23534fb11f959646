// Copies and fills: every alignment, ragged sizes, neighbours, order, two dimensions, peers.
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/cpp/check.h"
#include "tests/cpp/cpu/opened_driver.h"

using test::OpenedDriver;
using test::Options;

CASE(round_trips_keep_every_byte) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  for (size_t size :
       {size_t(0), size_t(1), size_t(255), size_t(256), size_t(4097), size_t(65537), (size_t(16) << 20) + 3}) {
    std::vector<unsigned char> source(size), back(size);
    std::iota(source.begin(), source.end(), 1);
    void *one = driver.allocate(size), *two = driver.allocate(size);
    CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, one, source.data(), size, TB_COPY_HOST_TO_DEVICE), TB_OK);
    CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, two, one, size, TB_COPY_DEVICE_TO_DEVICE), TB_OK);
    CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, back.data(), two, size, TB_COPY_DEVICE_TO_HOST), TB_OK);
    CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
    CHECK(back == source);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, one), TB_OK);
    CHECK_EQUAL(driver.api.mem_free(driver.self, 0, two), TB_OK);
  }
  CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, nullptr, nullptr, 0, TB_COPY_HOST_TO_DEVICE), TB_OK);
}

CASE(every_alignment_of_both_ends_works_and_overlap_is_correct) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto *block = static_cast<unsigned char *>(driver.allocate(256));
  for (size_t from = 0; from < 16; ++from)
    for (size_t to = 0; to < 16; ++to) {
      std::vector<unsigned char> expected(256);
      std::iota(expected.begin(), expected.end(), 0);
      std::memcpy(block, expected.data(), 256);
      CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, block + to, block + from, 100, TB_COPY_DEVICE_TO_DEVICE),
                  TB_OK);
      std::memmove(expected.data() + to, expected.data() + from, 100);
      CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
      CHECK(std::memcmp(block, expected.data(), 256) == 0);
    }
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(fills_write_the_pattern_and_nothing_beside_it) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto *block = static_cast<unsigned char *>(driver.allocate(4096));
  for (uint32_t pattern : {0x01020304u, 0x07070707u, 0u})
    for (uint32_t width : {1u, 2u, 4u})
      for (uint64_t count : {uint64_t(0), uint64_t(1), uint64_t(3), uint64_t(63), uint64_t(64), uint64_t(65),
                             uint64_t(257), uint64_t(1000)})
        for (size_t offset : {size_t(0), size_t(1), size_t(3)}) {
          std::memset(block, 0xee, 4096);
          std::vector<unsigned char> expected(4096, 0xee);
          for (uint64_t place = 0; place < count; ++place)
            std::memcpy(expected.data() + offset + place * width, &pattern, width);
          CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, block + offset, pattern, width, count), TB_OK);
          CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
          CHECK(std::memcmp(block, expected.data(), 4096) == 0);
        }
  for (uint32_t width : {0u, 3u, 8u})
    CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, block, 0, width, 1), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.mem_set(driver.self, 0, stream, block, 0, 4, UINT64_MAX / 2), TB_INVALID_ARGUMENT);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(ten_thousand_small_copies_keep_their_order) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  auto *block = static_cast<int *>(driver.allocate(2 * sizeof(int)));
  std::vector<int> source(10000), seen(10000);
  std::iota(source.begin(), source.end(), 5);
  for (size_t number = 0; number < 10000; ++number) {
    driver.api.mem_copy(driver.self, 0, stream, block, &source[number], 4, TB_COPY_HOST_TO_DEVICE);
    driver.api.mem_copy(driver.self, 0, stream, block + 1, block, 4, TB_COPY_DEVICE_TO_DEVICE);
    driver.api.mem_copy(driver.self, 0, stream, &seen[number], block + 1, 4, TB_COPY_DEVICE_TO_HOST);
  }
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK(seen == source);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
}

CASE(a_copy_waits_for_the_work_before_it) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  test::Gate gate;
  int source = 1, target = 0;
  driver.submit(stream, [&] { gate.pass(), source = 2; });
  CHECK_EQUAL(driver.api.mem_copy(driver.self, 0, stream, &target, &source, 4, TB_COPY_DEVICE_TO_HOST), TB_OK);
  CHECK_EQUAL(target, 0);
  gate.open();
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK_EQUAL(target, 2);
}

CASE(pitched_copies_leave_the_padding_alone) {
  OpenedDriver driver;
  tb_stream *stream = driver.default_stream();
  std::vector<unsigned char> source(10 * 32), target(10 * 48, 0xee), expected(10 * 48, 0xee);
  std::iota(source.begin(), source.end(), 0);
  for (size_t row = 0; row < 10; ++row) std::memcpy(&expected[row * 48], &source[row * 32], 20);
  tb_copy_2d copy = {sizeof copy, TB_COPY_HOST_TO_DEVICE, target.data(), source.data(), 48, 32, 20, 10};
  CHECK_EQUAL(driver.api.mem_copy_2d(driver.self, 0, stream, &copy), TB_OK);
  copy.width = 1000; // the call has already read the struct
  CHECK_EQUAL(driver.api.stream_synchronize(driver.self, stream), TB_OK);
  CHECK(target == expected);
  CHECK_EQUAL(driver.api.mem_copy_2d(driver.self, 0, stream, &copy), TB_INVALID_ARGUMENT);
  CHECK(test::take_error().find("1000") != std::string::npos);
  copy.height = 0;
  CHECK_EQUAL(driver.api.mem_copy_2d(driver.self, 0, stream, &copy), TB_OK);
  copy.struct_size = 8;
  CHECK_EQUAL(driver.api.mem_copy_2d(driver.self, 0, stream, &copy), TB_INVALID_ARGUMENT);
}

CASE(peers_reach_each_other_both_ways_in_stream_order) {
  OpenedDriver driver(Options{{"devices", "2"}});
  for (int32_t device = 0; device < 2; ++device)
    for (int32_t peer = 0; peer < 2; ++peer) {
      int32_t can = -1;
      CHECK_EQUAL(driver.api.peer_can_access(driver.self, device, peer, &can), TB_OK);
      CHECK_EQUAL(can, device != peer ? 1 : 0);
    }
  CHECK_EQUAL(driver.api.peer_disable(driver.self, 0, 1), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.api.peer_enable(driver.self, 0, 1), TB_OK);
  CHECK_EQUAL(driver.api.peer_enable(driver.self, 0, 1), TB_ALREADY_EXISTS);
  CHECK_EQUAL(driver.api.peer_enable(driver.self, 1, 0), TB_OK);
  CHECK_EQUAL(driver.api.peer_disable(driver.self, 0, 1), TB_OK);
  CHECK_EQUAL(driver.api.peer_enable(driver.self, 1, 1), TB_INVALID_ARGUMENT);
  auto *here = static_cast<int *>(driver.allocate(4, 0)), *there = static_cast<int *>(driver.allocate(4, 1));
  *here = 11;
  CHECK_EQUAL(driver.api.peer_copy(driver.self, driver.default_stream(0), there, 1, here, 0, 4), TB_OK);
  driver.submit(driver.default_stream(0), [&] { ++*there; });
  CHECK_EQUAL(driver.api.peer_copy(driver.self, driver.default_stream(0), here, 0, there, 1, 4), TB_OK);
  CHECK_EQUAL(driver.api.device_synchronize(driver.self, 0), TB_OK);
  CHECK_EQUAL(*here, 12);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, here), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 1, there), TB_OK);
}

CASE(bad_arguments_are_named) {
  OpenedDriver driver(Options{{"devices", "2"}});
  tb_stream *stream = driver.default_stream();
  char byte = 0;
  const auto refused = [&](tb_status status, const char *part) {
    return status == TB_INVALID_ARGUMENT && test::take_error().find(part) != std::string::npos;
  };
  CHECK(refused(driver.api.mem_copy(driver.self, 0, nullptr, &byte, &byte, 1, 3), "stream is NULL"));
  CHECK(refused(driver.api.mem_copy(driver.self, 0, stream, nullptr, &byte, 1, 3), "dst is NULL"));
  CHECK(refused(driver.api.mem_copy(driver.self, 0, stream, &byte, nullptr, 1, 3), "src is NULL"));
  CHECK(refused(driver.api.mem_copy(driver.self, 0, stream, &byte, &byte, 1, 4), "kind 4"));
  CHECK(refused(driver.api.mem_copy(driver.self, 1, stream, &byte, &byte, 1, 3), "belongs to device 0"));
  CHECK(refused(driver.api.mem_set(driver.self, 0, stream, nullptr, 0, 1, 1), "dst is NULL"));
  CHECK(refused(driver.api.mem_copy_2d(driver.self, 0, stream, nullptr), "copy is NULL"));
}

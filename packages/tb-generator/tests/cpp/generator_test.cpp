// Uses the function table from several threads at once, and fills memory in place. Meant for ThreadSanitizer,
// AddressSanitizer and UndefinedBehaviorSanitizer. Returns the number of failed checks.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "philox/philox.h"
#include "processor/instruction_set.h"
#include "processor/parallel.h"
#include "table.h"

using tb::generator::table;

namespace {

int failures = 0;

void check(bool condition, const std::string &promise) {
  if (condition) return;
  printf("FAILED: %s\n", promise.c_str());
  failures++;
}

struct Error {
  tb_status status = TB_OK;
  std::string function, text;
} last_error;

void keep_error(tb_status status, int64_t, int32_t, const char *function, const char *text) {
  last_error = {status, function, text};
}

void published_answers_are_given() {
  using tb::generator::philox::Block;
  check(tb::generator::philox::block({}, {}) == Block{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}, "all zero");
  constexpr uint32_t ones = 0xFFFFFFFF;
  check(tb::generator::philox::block({ones, ones, ones, ones}, {ones, ones}) ==
            Block{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD},
        "all one");
}

void threads_that_reserve_never_get_the_same_words() {
  tb_generator *generator = nullptr;
  check(table.create(7, &generator) == TB_OK, "create");
  constexpr int threads = 4, rounds = 5000;
  std::vector<std::vector<uint64_t>> taken(threads);
  std::vector<std::thread> running;
  for (auto &mine : taken)
    running.emplace_back([&mine, generator] {
      for (int round = 0; round < rounds; round++) {
        uint64_t seed = 0, offset = 0;
        table.reserve(generator, 9, &seed, &offset); // 3 blocks
        mine.push_back(offset);
      }
    });
  for (std::thread &thread : running) thread.join();
  std::set<uint64_t> all;
  for (const auto &mine : taken)
    for (uint64_t offset : mine) check(offset % 3 == 0 && all.insert(offset).second, "offsets are distinct and whole");
  check(*all.rbegin() == 3 * (threads * rounds - 1), "nothing between is left out");
  uint64_t seed = 0, offset = 0;
  table.get_state(generator, &seed, &offset);
  check(seed == 7 && offset == uint64_t{3} * threads * rounds, "the state after");
  table.destroy(generator);
}

void states_are_set_and_read_whole() {
  tb_generator *generator = nullptr;
  check(table.create(0, &generator) == TB_OK, "create");
  std::thread writer([generator] {
    for (uint64_t round = 0; round < 20000; round++) table.set_state(generator, round, 10 * round);
  });
  for (int round = 0; round < 20000; round++) {
    uint64_t seed = 0, offset = 0;
    table.get_state(generator, &seed, &offset);
    if (offset != 10 * seed) check(false, "seed and offset belong together");
  }
  writer.join();
  table.destroy(generator);
}

void threads_get_the_same_default_generator() {
  std::vector<tb_generator *> found(4);
  std::vector<std::thread> running;
  for (auto &one : found)
    running.emplace_back([&one] { check(table.default_generator(3, &one) == TB_OK, "default_generator"); });
  for (std::thread &thread : running) thread.join();
  for (tb_generator *one : found) check(one && one == found[0], "one generator a device");
  tb_generator *other = nullptr;
  check(table.default_generator(4, &other) == TB_OK && other != found[0], "another device, another generator");
  tb::generator::seed_all(99);
  uint64_t seed = 0, offset = 1;
  table.get_state(found[0], &seed, &offset);
  check(seed == 99 && offset == 0, "seed_all reaches generators that exist");
}

void refusals_keep_their_text_and_write_nothing() {
  float value = 42;
  check(table.uniform(&value, TB_FLOAT32, 0, 1, 1, 0, 2, 1) == TB_INVALID_ARGUMENT && value == 42, "from > to");
  check(last_error.status == TB_INVALID_ARGUMENT && last_error.function == "tb_generator.uniform" &&
            last_error.text.find("from <= to") != std::string::npos,
        "the error's text: " + last_error.text);
  check(table.normal(&value, TB_INT32, 0, 1, 1, 0, 0, 1) == TB_INVALID_ARGUMENT, "normal integers");
  check(table.integers(&value, 77, 0, 1, 1, 0, 0, 5) == TB_INVALID_ARGUMENT, "no such type");
  tb_generator *generator = nullptr;
  check(table.default_generator(-1, &generator) == TB_OUT_OF_RANGE && !generator, "device -1");
}

// Whether there is a distribution of this kind, from TB_FILL_UNIFORM on. Each fills float32.
bool is_distribution(int32_t kind) { return table.words_needed(kind, TB_FLOAT32, 1) != 0; }

// Fills memory of exactly the right size, which AddressSanitizer guards, with every kind and type, whole and in parts
// on several threads: no byte outside of it is written, none is missed, and both results are bit-identical.
void fills_write_exactly_their_range() {
  constexpr uint64_t count = 10007;
  for (int32_t type = TB_FLOAT32; type <= TB_BOOL; type++) {
    const uint64_t size = tb::generator::element_size(type);
    for (int32_t kind = TB_FILL_UNIFORM; is_distribution(kind); kind++) {
      const std::string name = "kind " + std::to_string(kind) + ", type " + std::to_string(type);
      if (!table.words_needed(kind, type, 1)) continue;
      const auto fill = [&](void *dst, uint64_t first, uint64_t part) -> tb_status {
        switch (kind) {
        case TB_FILL_UNIFORM:
          return table.uniform(dst, type, first, part, 5, 6, 0, 1);
        case TB_FILL_NORMAL:
          return table.normal(dst, type, first, part, 5, 6, 0, 1);
        case TB_FILL_INTEGERS:
          return table.integers(dst, type, first, part, 5, 6, 0, 2);
        case TB_FILL_BERNOULLI:
          return table.bernoulli(dst, type, first, part, 5, 6, 0.5);
        case TB_FILL_EXPONENTIAL:
          return table.exponential(dst, type, first, part, 5, 6, 1);
        case TB_FILL_CAUCHY:
          return table.cauchy(dst, type, first, part, 5, 6, 0, 1);
        case TB_FILL_LOG_NORMAL:
          return table.log_normal(dst, type, first, part, 5, 6, 0, 1);
        case TB_FILL_GEOMETRIC:
          return table.geometric(dst, type, first, part, 5, 6, 0.25);
        case TB_FILL_TRUNCATED_NORMAL:
          return table.truncated_normal(dst, type, first, part, 5, 6, 0, 1, -1, 2);
        default:
          return TB_UNSUPPORTED; // a new kind needs its call here
        }
      };
      std::vector<char> whole(count * size, 0x55), parts(count * size, 0x66);
      check(fill(whole.data(), 0, count) == TB_OK, name);
      std::atomic<int> failed{0};
      tb::generator::in_parallel(count, 3, [&](uint64_t first, uint64_t part) {
        if (fill(parts.data() + first * size, first, part) != TB_OK) failed++;
      });
      check(!failed && whole == parts, name + ": parts on threads are bit-identical to the whole");
      std::vector<char> few(3 * size);
      check(fill(few.data(), 1001, 3) == TB_OK && memcmp(few.data(), whole.data() + 1001 * size, 3 * size) == 0,
            name + ": three elements from the middle");
    }
  }
}

// The elements that fills of each kind and type write must not depend on the instruction set.
void every_instruction_set_writes_bit_identical_elements() {
  using tb::generator::InstructionSet;
  const InstructionSet best = tb::generator::instruction_set();
  std::vector<uint64_t> out(5000), expected;
  for (int32_t type = TB_FLOAT32; type <= TB_BOOL; type++)
    for (int32_t kind = TB_FILL_UNIFORM; is_distribution(kind); kind++) {
      if (!table.words_needed(kind, type, 1)) continue;
      const tb::generator::Distribution distribution{
          .kind = kind, .first = 0.5, .second = 1, .low = -1, .high = 2, .from = 0, .width = 2};
      for (const uint64_t offset : {uint64_t{7}, UINT64_MAX - 100, (uint64_t{1} << 32) - 50}) {
        bool first = true;
        for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512}) {
          if (!tb::generator::use(set)) continue;
          tb::generator::fill(distribution, out.data(), type, {3, 5000}, {1, offset});
          if (first) expected = out;
          check(out == expected, "kind " + std::to_string(kind) + ", type " + std::to_string(type) + " as " +
                                     tb::generator::name_of(set));
          first = false;
        }
      }
    }
  tb::generator::use(best);
}

// Every machine must give this hash of all fills. It is printed, so that a failure shows both hashes.
void bits_are_those_of_every_machine() {
  uint64_t hash = 14695981039346656037u;
  std::vector<uint64_t> out(10007);
  for (int32_t type = TB_FLOAT32; type <= TB_BOOL; type++)
    for (int32_t kind = TB_FILL_UNIFORM; is_distribution(kind); kind++) {
      const uint64_t size = tb::generator::element_size(type);
      if (!table.words_needed(kind, type, 1)) continue;
      tb::generator::fill({.kind = kind, .first = 0.5, .second = 1, .low = -1, .high = 2, .from = 0, .width = 2},
                          out.data(), type, {5, 10007}, {1234567890123, 77});
      const auto *bytes = reinterpret_cast<const unsigned char *>(out.data());
      for (uint64_t i = 0; i < 10007 * size; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    }
  printf("hash of all fills: %016llx\n", static_cast<unsigned long long>(hash));
  check(hash == 0x9940A93546820BECu, "the bits of all fills");
}

void dropout_writes_exactly_its_range_in_place_too() {
  std::vector<float> source(5003, 3.0f), out(5003), parts = source;
  std::vector<uint8_t> mask(5003), expected(5003);
  check(table.dropout(source.data(), out.data(), mask.data(), TB_FLOAT32, 0, 5003, 5, 6, 0.75, 2) == TB_OK, "dropout");
  check(table.bernoulli(expected.data(), TB_BOOL, 0, 5003, 5, 6, 0.75) == TB_OK && mask == expected, "the mask");
  for (uint64_t first = 0; first < 5003; first += 1000)
    table.dropout(parts.data() + first, parts.data() + first, nullptr, TB_FLOAT32, first,
                  std::min<uint64_t>(1000, 5003 - first), 5, 6, 0.75, 2);
  check(parts == out, "parts in place");
  for (size_t i = 0; i < out.size(); i++)
    if (out[i] != (mask[i] ? 6.0f : 0.0f)) return check(false, "zero or scaled");
}

void permutations_and_samples_stay_inside() {
  for (const uint64_t count : {0, 1, 2, 7, 10007}) {
    std::vector<int64_t> drawn(count);
    check(table.permutation(drawn.data(), count, 5, 6) == TB_OK, "permutation");
    const std::set<int64_t> seen(drawn.begin(), drawn.end());
    check(seen.size() == count && (count == 0 || *seen.rbegin() == static_cast<int64_t>(count) - 1),
          "every number once");
  }
  const std::vector<double> weights{0, 1, 2, 0, 3, 0};
  std::vector<int64_t> drawn(1000);
  check(table.multinomial(drawn.data(), 1000, weights.data(), 6, 1, 5, 6) == TB_OK, "multinomial");
  for (const int64_t one : drawn)
    if (one != 1 && one != 2 && one != 4) return check(false, "weights of 0 are never drawn");
  check(table.multinomial(drawn.data(), 3, weights.data(), 6, 0, 5, 6) == TB_OK &&
            std::set<int64_t>(drawn.begin(), drawn.begin() + 3) == std::set<int64_t>{1, 2, 4},
        "without replacement");
  check(table.multinomial(drawn.data(), 4, weights.data(), 6, 0, 5, 6) == TB_INVALID_ARGUMENT, "too many");
}

void captures_keep_the_sequence_still() {
  tb_generator *generator = nullptr;
  check(table.create(7, &generator) == TB_OK, "create");
  uint64_t seed = 0, offset = 0, words = 0;
  table.reserve(generator, 40, &seed, &offset);
  check(table.capture_begin(generator) == TB_OK && table.is_capturing(generator), "capture_begin");
  check(table.capture_begin(generator) == TB_FAILED_PRECONDITION, "one capture at a time");
  table.reserve(generator, 5, &seed, &offset);
  check(offset == 0 && seed == 7, "offsets count from 0");
  check(table.capture_end(generator, &words) == TB_OK && words == 8 && !table.is_capturing(generator), "capture_end");
  check(table.capture_end(generator, &words) == TB_FAILED_PRECONDITION, "nothing is captured");
  table.get_state(generator, &seed, &offset);
  check(seed == 7 && offset == 10, "the sequence stood still");
  table.destroy(generator);
}

} // namespace

int main() {
  tb::generator::device_table.set_error = keep_error;
  published_answers_are_given();
  threads_that_reserve_never_get_the_same_words();
  states_are_set_and_read_whole();
  threads_get_the_same_default_generator();
  refusals_keep_their_text_and_write_nothing();
  fills_write_exactly_their_range();
  every_instruction_set_writes_bit_identical_elements();
  bits_are_those_of_every_machine();
  dropout_writes_exactly_its_range_in_place_too();
  permutations_and_samples_stay_inside();
  captures_keep_the_sequence_still();
  printf("%d failed\n", failures);
  return failures != 0;
}

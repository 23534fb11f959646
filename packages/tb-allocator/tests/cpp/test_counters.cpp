// test_counters.cpp -- compares the statistics with a simple implementation that updates every peak and sum at each
// event.
#include "blocks/counters.h"

#include <cstring>
#include <random>
#include <vector>

#include "fake_driver.h"

namespace {

using tb::allocator::Count;
using tb::allocator::Tally;

// One statistic: of both pools together, of the small pool, and of the large pool.
struct Account {
  tb_statistic values[3]{};

  void change(bool large, int64_t amount) {
    for (int place : {0, 1 + large}) {
      tb_statistic &one = values[place];
      one.current += amount;
      (amount > 0 ? one.allocated : one.freed) += std::abs(amount);
      one.peak = std::max(one.peak, one.current);
    }
  }
  void change(bool large, const Tally &tally) {
    for (int place : {0, 1 + large}) {
      tb_statistic &one = values[place];
      one.peak = std::max(one.peak, one.current + tally.high);
      one.current += tally.current;
      one.allocated += tally.increased;
      one.freed += tally.increased - tally.current;
    }
  }
};

struct Accounts {
  Account allocation, active, split, allocated_bytes, active_bytes, split_bytes, requested_bytes, reserved_bytes;

  template <class Visit> void each(Visit visit) {
    for (Account *one : {&allocation, &active, &split, &allocated_bytes, &active_bytes, &split_bytes, &requested_bytes,
                         &reserved_bytes})
      for (tb_statistic &value : one->values) visit(value);
  }
};

struct Block {
  bool large;
  int64_t bytes, requested;
};

bool same(const tb_statistic *one, const Account &other) {
  return std::memcmp(one, other.values, sizeof other.values) == 0;
}

void compare(const tb::allocator::Counters &counters, const Accounts &plain) {
  tb_allocator_statistics all{};
  counters.read(&all);
  CHECK(same(all.allocation, plain.allocation));
  CHECK(same(all.active, plain.active));
  CHECK(same(all.inactive_split, plain.split));
  CHECK(same(all.allocated_bytes, plain.allocated_bytes));
  CHECK(same(all.active_bytes, plain.active_bytes));
  CHECK(same(all.inactive_split_bytes, plain.split_bytes));
  CHECK(same(all.requested_bytes, plain.requested_bytes));
  CHECK(same(all.reserved_bytes, plain.reserved_bytes));
  for (bool large : {false, true}) CHECK(counters.active_bytes(large) == plain.active_bytes.values[1 + large].current);
  CHECK(counters.active_bytes() == plain.active_bytes.values[0].current);
  CHECK(counters.peak(Count::requested_bytes) == plain.requested_bytes.values[0].peak);
}

void statistics_are_those_of_a_plain_account(uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&random](uint32_t end) { return static_cast<int64_t>(random() % end); };
  tb::allocator::Counters counters;
  Accounts plain;
  std::vector<Block> live, pending;
  int apart = 0; // the number of steps at which the peaks of active and of allocated blocks differ
  auto pick = [&](std::vector<Block> &from) {
    std::swap(from[static_cast<size_t>(below(static_cast<uint32_t>(from.size())))], from.back());
    Block block = from.back();
    from.pop_back();
    return block;
  };
  for (int step = 0; step < 200000; ++step) {
    // Phases in which more is allocated than freed alternate with others. Pending blocks come and go in both.
    bool grows = step / 1000 % 2 == 0;
    bool large = below(2);
    switch (int64_t what = below(1000); what) {
    case 0: {
      counters.reset_peak();
      plain.each([](tb_statistic &value) { value.peak = value.current; });
      break;
    }
    case 1: {
      counters.reset_accumulated();
      plain.each([](tb_statistic &value) { value.allocated = value.freed = 0; });
      break;
    }
    default:
      if (what < 100) { // the changes of a thread's cache
        Tally blocks, bytes;
        for (int64_t i = below(9); i > 0; --i) {
          bool up = below(2) || blocks.current <= 0;
          up ? blocks.add(1) : blocks.subtract(1);
          up ? bytes.add(512) : bytes.subtract(512);
        }
        live.insert(live.end(), static_cast<size_t>(blocks.current), {large, 512, 512});
        counters.add(large, blocks, bytes, bytes);
        counters.add(large, Count::inactive_split, blocks.mirrored());
        plain.allocation.change(large, blocks);
        plain.active.change(large, blocks);
        plain.allocated_bytes.change(large, bytes);
        plain.active_bytes.change(large, bytes);
        plain.requested_bytes.change(large, bytes);
        plain.split.change(large, blocks.mirrored());
      } else if (what < 200) {
        int64_t amount = below(100) - std::min<int64_t>(50, plain.split_bytes.values[1 + large].current);
        counters.change(large, Count::inactive_split_bytes, amount);
        if (amount) plain.split_bytes.change(large, amount);
      } else if (what < 250) {
        counters.add(large, Count::reserved_bytes, 4096);
        plain.reserved_bytes.change(large, 4096);
      } else if (!pending.empty() && what < (grows ? 350 : 500)) {
        Block block = pick(pending);
        counters.complete(block.large, static_cast<uint64_t>(block.bytes), static_cast<uint64_t>(block.requested));
        plain.active.change(block.large, -1);
        plain.active_bytes.change(block.large, -block.bytes);
        plain.requested_bytes.change(block.large, -block.requested);
      } else if (!live.empty() && what < (grows ? 500 : 800)) {
        Block block = pick(live);
        plain.allocation.change(block.large, -1);
        plain.allocated_bytes.change(block.large, -block.bytes);
        // In half of the steps frees may become pending.
        if (step % 20000 < 10000 && below(3) == 0) {
          counters.leave(block.large, static_cast<uint64_t>(block.bytes));
          pending.push_back(block);
        } else {
          counters.free(block.large, static_cast<uint64_t>(block.bytes), static_cast<uint64_t>(block.requested));
          plain.active.change(block.large, -1);
          plain.active_bytes.change(block.large, -block.bytes);
          plain.requested_bytes.change(block.large, -block.requested);
        }
      } else {
        Block block{large, 512 * (1 + below(100)), 0};
        block.requested = block.bytes - below(512);
        counters.allocate(large, static_cast<uint64_t>(block.bytes), static_cast<uint64_t>(block.requested));
        live.push_back(block);
        plain.allocation.change(large, 1);
        plain.active.change(large, 1);
        plain.allocated_bytes.change(large, block.bytes);
        plain.active_bytes.change(large, block.bytes);
        plain.requested_bytes.change(large, block.requested);
      }
    }
    if (step % 7 == 0) compare(counters, plain);
    apart += plain.active.values[0].peak > plain.allocation.values[0].peak;
  }
  compare(counters, plain);
  CHECK(apart > 1000 && apart < 199000);
}

} // namespace

int main() {
  for (uint32_t seed = 0; seed < 5; ++seed) statistics_are_those_of_a_plain_account(seed);
  return 0;
}

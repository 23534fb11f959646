// test_plan.cpp -- plans: steps on several streams that repeat, diverge anywhere, leave blocks alive, and recover.
//
// Promises: whatever a step does, live blocks never overlap, and another stream gets memory only in stream order. A
// step that goes as planned gets its planned places without a driver call about memory. Statistics are consistent.
#include <cstring>
#include <random>

#include "fake_driver.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "shadow.h"

namespace {

using tb::allocator::MiB;
using tb::allocator::Plan;

struct Operation {
  enum Kind { allocate, free, record } kind;
  uint32_t block; // the number of the block's allocation in the step
  uint64_t size = 0;
  uint32_t stream = 0;
};
using Step = std::vector<Operation>;

constexpr uint32_t stream_count = 3;

uint64_t some_size(std::mt19937_64 &random) {
  switch (random() % 4) {
  case 0:
    return 1 + random() % 5000;
  case 1:
    return 1 + random() % MiB;
  default:
    return 1 + random() % (4 * MiB);
  }
}

Step some_step(std::mt19937_64 &random, uint32_t streams) {
  Step step;
  std::vector<uint32_t> live;
  uint32_t next = 0;
  for (int i = 0; i < 120; ++i) {
    uint64_t choice = random() % 10;
    if (choice < 5 && live.size() < 12) {
      live.push_back(next);
      step.push_back({Operation::allocate, next++, some_size(random), static_cast<uint32_t>(random() % streams)});
    } else if (choice < 6 && !live.empty()) {
      step.push_back({Operation::record, live[random() % live.size()], 0, static_cast<uint32_t>(random() % streams)});
    } else if (!live.empty()) {
      size_t which = random() % live.size();
      step.push_back({Operation::free, live[which]});
      live.erase(live.begin() + static_cast<ptrdiff_t>(which));
    }
  }
  for (size_t index = 0; index < live.size(); ++index)
    if (index % 3) step.push_back({Operation::free, live[index]}); // the other blocks outlive the step
  return step;
}

class Machine {
public:
  explicit Machine(bool growing, uint64_t capacity = uint64_t{256} << 20) {
    fake::world.capacity = capacity;
    tb::Driver driver{&fake::api, nullptr};
    tb::allocator::HeapPolicy policy;
    policy.growing = growing;
    if (growing) policy.small_limit = tb::allocator::paged_small_limit;
    policy.total_memory = capacity;
    policy.history = 64;
    heap =
        std::make_unique<tb::allocator::Heap>(driver, std::make_unique<tb::allocator::DeviceSource>(driver, 0), policy);
    for (uint32_t i = 0; i < stream_count; ++i) streams.push_back(fake::new_stream());
  }
  ~Machine() {
    while (!all.empty()) free(all.begin()->first);
    fake::complete_all();
    CHECK(heap->empty_cache() == TB_OK);
    check();
    heap->shutdown();
    tb_allocator_statistics end{};
    heap->statistics(&end);
    CHECK(end.reserved_bytes[0].current == 0 && end.segment[0].current == 0 && end.active[0].current == 0);
    CHECK(fake::world.used == 0 && fake::world.mapped.empty() && fake::world.ranges.empty());
    heap.reset();
    CHECK(fake::world.events.empty());
  }

  void allocate(uint64_t key, uint64_t size, uint32_t number) {
    Live live{nullptr, nullptr, size, streams[number], {}, static_cast<uint8_t>(key)};
    void *pointer = nullptr;
    CHECK(heap->allocate(size, live.stream, &pointer, &live.block) == TB_OK);
    live.pointer = static_cast<char *>(pointer);
    CHECK(live.block->size >= size && reinterpret_cast<uintptr_t>(pointer) % 512 == 0);
    for (auto &[other_key, other] : all)
      CHECK(live.pointer + live.block->size <= other.pointer || other.pointer + other.block->size <= live.pointer);
    shadow.allocated(live);
    live.pointer[0] = live.pointer[size - 1] = static_cast<char>(live.mark);
    ++live.stream->queued; // the block's first use
    all[key] = live;
  }
  void free(uint64_t key) {
    Live live = all.at(key);
    CHECK(static_cast<uint8_t>(live.pointer[0]) == live.mark);
    CHECK(static_cast<uint8_t>(live.pointer[live.size - 1]) == live.mark);
    shadow.freed(live);
    all.erase(key);
    heap->deallocate(live.block);
  }
  void record(uint64_t key, uint32_t number) {
    Live &live = all.at(key);
    CHECK(heap->record_stream(live.block, streams[number]) == TB_OK);
    ++streams[number]->queued;
    if (streams[number] != live.stream) live.uses.push_back(streams[number]);
  }
  void move(std::mt19937_64 &random) {
    tb_stream *stream = streams[random() % streams.size()];
    uint64_t limit = reach(stream);
    if (limit > stream->done) stream->done += 1 + random() % (limit - stream->done);
  }
  void check() {
    tb_allocator_statistics now{};
    heap->statistics(&now);
    CHECK(now.allocation[0].current == static_cast<int64_t>(all.size()));
    int64_t bytes = 0;
    for (auto &[key, live] : all) bytes += static_cast<int64_t>(live.block->size);
    CHECK(now.allocated_bytes[0].current == bytes);
    CHECK(now.reserved_bytes[0].current == static_cast<int64_t>(fake::world.used.load()));
    CHECK(now.reserved_bytes[0].current >= now.active_bytes[0].current + now.inactive_split_bytes[0].current);
  }

  std::unique_ptr<tb::allocator::Heap> heap;
  std::vector<tb_stream *> streams;
  std::map<uint64_t, Live> all;
  Shadow shadow;
};

Plan::State state_of(Machine &machine, Plan &plan) {
  return planner_of(*machine.heap).read_plan(plan, [](const Plan &one) { return one.state; });
}

// Runs the step as repetition `turn`. Blocks that the last repetition left alive are freed in its middle, as in real
// programs.
void play(Machine &machine, const Step &step, uint64_t turn, std::mt19937_64 &random, size_t until = SIZE_MAX) {
  std::vector<uint64_t> left;
  for (auto &[key, live] : machine.all) left.push_back(key);
  for (size_t at = 0; at < std::min(step.size(), until); ++at) {
    const Operation &one = step[at];
    uint64_t key = turn * 1000 + one.block;
    if (one.kind == Operation::allocate) {
      machine.allocate(key, one.size, one.stream);
    } else if (machine.all.count(key)) {
      if (one.kind == Operation::free)
        machine.free(key);
      else
        machine.record(key, one.stream);
    }
    if (at == step.size() / 2)
      for (uint64_t old : left) machine.free(old);
    if (random() % 3 == 0) machine.move(random);
    if (!machine.all.empty() && random() % 8 == 0) {
      const Live &live = std::next(machine.all.begin(), static_cast<ptrdiff_t>(random() % machine.all.size()))->second;
      CHECK(machine.heap->find(live.pointer + random() % live.size) == live.block);
    }
  }
  machine.check();
}

int calls() { return fake::world.allocations + fake::world.frees + fake::world.maps + fake::world.device_syncs; }

void a_step_that_repeats_needs_no_memory_calls(bool growing, uint32_t streams) {
  std::mt19937_64 random(streams);
  Step step = some_step(random, streams);
  Machine machine(growing);
  Plan &plan = *planner_of(*machine.heap).plan("step", 2);
  CHECK(planner_of(*machine.heap).plan("step", 9) == &plan && planner_of(*machine.heap).plan("other", 1) != &plan);
  std::vector<void *> first, now;
  for (uint64_t turn = 0; turn < 8; ++turn) {
    CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
    int before = calls();
    play(machine, step, turn, random);
    if (turn >= 4) CHECK(calls() == before); // by then memory is cached for blocks that outlive the step
    CHECK(streams > 1 || turn < 2 || fake::world.waits == 0 || growing);
    planner_of(*machine.heap).end_step(plan, true);
  }
  CHECK(state_of(machine, plan) == Plan::State::replaying);
  CHECK(plan.figures.steps == 8 && plan.figures.replays == 6 && plan.figures.divergences == 0);
  CHECK(plan.figures.hits == 6 * plan.figures.placed && plan.figures.placed < plan.figures.allocations);
  CHECK(streams == 1 ? plan.figures.handovers == 0 : plan.figures.handovers > 0);
  CHECK(machine.heap->snapshot().size() > 1000);
}

// Steps that change at a random place, sometimes permanently.
void random_steps(bool growing, uint64_t seed, uint64_t turns, uint64_t *replays, uint64_t *divergences) {
  std::mt19937_64 random(seed);
  Machine machine(growing);
  uint32_t streams = 1 + seed % stream_count;
  Step step = some_step(random, streams);
  Plan &plan = *planner_of(*machine.heap).plan("step", 1 + seed % 2);
  plan.seconds = 0.01;
  for (uint64_t turn = 0; turn < turns; ++turn) {
    Step changed = step;
    size_t until = SIZE_MAX;
    uint64_t choice = random() % 12;
    Operation &one = changed[random() % changed.size()];
    if (choice == 0 && one.kind == Operation::allocate) one.size = some_size(random);
    if (choice == 1) one.stream = static_cast<uint32_t>(random() % stream_count);
    if (choice == 2 && one.kind == Operation::free) one.kind = Operation::record; // the block is not freed in the step
    if (choice == 3) until = random() % changed.size();
    if (choice == 4) {
      auto place = changed.begin() + static_cast<ptrdiff_t>(random() % changed.size());
      auto block = static_cast<uint32_t>(500 + changed.size()); // steps grow, so the number is always a new one
      changed.insert(place, {Operation::allocate, block, some_size(random), 0});
    }
    if (choice == 5)
      for (size_t at = 0; at + 1 < changed.size(); at += 1 + random() % 9) // frees happen at other times
        if (changed[at].kind == Operation::free && changed[at + 1].block != changed[at].block)
          std::swap(changed[at], changed[at + 1]);
    if (random() % 15 == 0) step = changed;
    CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
    play(machine, changed, turn, random, until);
    planner_of(*machine.heap).end_step(plan, random() % 20 > 0);
    if (random() % 10 == 0) CHECK(machine.heap->empty_cache() == TB_OK);
    if (random() % 25 == 0) CHECK(planner_of(*machine.heap).reset_plan(plan) == TB_OK);
    machine.check();
  }
  *replays += plan.figures.replays;
  *divergences += plan.figures.divergences;
}

// The place of a block that is still allocated is not used again, and the plan recovers once it is made again.
void a_block_that_escapes_keeps_its_bytes() {
  std::mt19937_64 random(7);
  Machine machine(true);
  Plan &plan = *planner_of(*machine.heap).plan("step", 1);
  Step step = {{Operation::allocate, 0, 5 * MiB, 0},
               {Operation::free, 0},
               {Operation::allocate, 1, 5 * MiB, 0},
               {Operation::free, 1}};
  auto turn = [&](uint64_t number, const Step &which) {
    CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
    play(machine, which, number, random);
    planner_of(*machine.heap).end_step(plan, true);
  };
  turn(0, step);
  turn(1, step);
  CHECK(plan.figures.replays == 1);
  CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
  machine.allocate(2000, 5 * MiB, 0);
  machine.allocate(2001, 5 * MiB, 0); // its planned place is that of the first block, which is not free
  CHECK(state_of(machine, plan) == Plan::State::diverged);
  planner_of(*machine.heap).end_step(plan, true);
  machine.free(2001);
  CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
  machine.allocate(3000, 5 * MiB, 0);
  CHECK(machine.all.at(2000).pointer != machine.all.at(3000).pointer);
  machine.free(3000);
  planner_of(*machine.heap).end_step(plan, true);
  CHECK(plan.figures.divergences == 2 && state_of(machine, plan) == Plan::State::recording);
  CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
  for (uint64_t number : {4000, 4001}) {
    machine.allocate(number, 5 * MiB, 0);
    machine.free(number);
  }
  planner_of(*machine.heap).end_step(plan, true);
  turn(5, {{Operation::allocate, 0, 5 * MiB, 0},
           {Operation::free, 0},
           {Operation::allocate, 1, 5 * MiB, 0},
           {Operation::free, 1}});
  CHECK(plan.figures.replays == 2); // block 2000 is outside of the new places and alive until the middle
}

// An allocation that finds no memory gets the memory that the plan reserves, and the step continues.
void memory_of_a_plan_is_used_when_memory_runs_out(bool growing) {
  std::mt19937_64 random(9);
  Machine machine(growing, 64 * MiB);
  Plan &plan = *planner_of(*machine.heap).plan("step", 1);
  auto turn = [&] {
    CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
    machine.allocate(1, 40 * MiB, 0);
    machine.free(1);
    planner_of(*machine.heap).end_step(plan, true);
  };
  turn();
  turn();
  CHECK(plan.figures.replays == 1 && fake::world.used >= 40 * MiB);
  machine.allocate(2, 50 * MiB, 1);
  CHECK(state_of(machine, plan) == Plan::State::diverged);
  machine.free(2);
  turn();
  turn();
  CHECK(state_of(machine, plan) == Plan::State::replaying && plan.figures.replays == 2);
}

void invalid_calls_of_a_planner_are_refused() {
  Machine machine(true);
  Plan &plan = *planner_of(*machine.heap).plan("step", 1), &other = *planner_of(*machine.heap).plan("other", 1);
  CHECK(planner_of(*machine.heap).begin_step(plan) == TB_OK);
  CHECK(planner_of(*machine.heap).begin_step(other) == TB_FAILED_PRECONDITION);
  CHECK(planner_of(*machine.heap).reset_plan(plan) == TB_FAILED_PRECONDITION);
  planner_of(*machine.heap).end_step(other, true); // ends another plan's step
  CHECK(planner_of(*machine.heap).begin_step(plan) == TB_FAILED_PRECONDITION);
  planner_of(*machine.heap).end_step(plan, true);
  CHECK(machine.heap->pause(true) == TB_OK);
  CHECK(planner_of(*machine.heap).begin_step(plan) == TB_FAILED_PRECONDITION);
  CHECK(machine.heap->resume() == TB_OK);
}

} // namespace

int main(int count, char **arguments) {
  fake::install();
  uint64_t turns = count > 1 ? static_cast<uint64_t>(atoll(arguments[1])) : 120;
  invalid_calls_of_a_planner_are_refused();
  a_block_that_escapes_keeps_its_bytes();
  for (bool growing : {false, true}) {
    for (uint32_t streams : {1u, 3u}) a_step_that_repeats_needs_no_memory_calls(growing, streams);
    memory_of_a_plan_is_used_when_memory_runs_out(growing);
    uint64_t replays = 0, divergences = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) random_steps(growing, seed, turns, &replays, &divergences);
    fprintf(stderr, "plan growing=%d: %llu steps replayed, %llu diverged\n", growing,
            static_cast<unsigned long long>(replays), static_cast<unsigned long long>(divergences));
    CHECK(replays > turns && divergences > turns); // of 12 * turns steps
  }
}

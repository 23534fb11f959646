// CLO: closures that look at those behind them.
#include "contract/support/probe.h"

namespace tb::contract::closure_lookahead_cases {
namespace {

constexpr uint64_t needs = TB_GROUP_ASYNC | TB_GROUP_CLOSURE;

// What a looking closure was given until there was nothing more, and how many others ran.
struct Log {
  bool can_look = true;
  std::vector<void *> storages;
  std::vector<int> numbers; // -1: of another kind
  std::atomic<int> runs{0}, destroys{0};
};

struct Piece {
  Log *log;
  int number;
};

constexpr tb_closure piece_closure = {sizeof(tb_closure), 0, "contract_piece",
                                      [](void *storage, const tb_closure_context *) -> tb_status {
                                        ++static_cast<Piece *>(storage)->log->runs;
                                        return TB_OK;
                                      },
                                      [](void *storage) { ++static_cast<Piece *>(storage)->log->destroys; }};

tb_status look(void *storage, const tb_closure_context *context) {
  Log &log = *static_cast<Piece *>(storage)->log;
  log.can_look = context->next != nullptr;
  void *behind = nullptr;
  while (const tb_closure *closure = log.can_look ? context->next(context, &behind) : nullptr) {
    log.storages.push_back(behind);
    log.numbers.push_back(closure == &piece_closure ? static_cast<Piece *>(behind)->number : -1);
  }
  return TB_OK;
}

constexpr tb_closure looking_closure = {sizeof(tb_closure), 0, "contract_looking", look, [](void *) {}};

void *reserve(Kit &kit, tb_stream *stream, Log &log, int number = 0, uint64_t more = 0) {
  void *storage = nullptr;
  CHECK_OK(kit.api().closure_reserve(kit.self(), stream, sizeof(Piece) + more, &storage));
  return new (storage) Piece{&log, number};
}

void commit(Kit &kit, tb_stream *stream, void *storage, const tb_closure &closure = piece_closure) {
  CHECK_OK(kit.api().closure_commit(kit.self(), stream, storage, &closure));
}

TB_CASE(CLO, 15, needs, "closure_commit.4", "a closure sees those behind it, as far as they are committed") {
  for (int round = 0; round < 50; ++round) { // all places in a queue
    Stream stream(kit);
    Log log;
    const int count = 5 + round;
    void *looking = reserve(kit, stream, log);
    std::vector<void *> behind;
    for (int i = 0; i < count; ++i) {
      behind.push_back(reserve(kit, stream, log, i, 64 * static_cast<uint64_t>(i)));
      CHECK_OK(kit.api().closure_cancel(kit.self(), stream, reserve(kit, stream, log)));
      commit(kit, stream, behind.back());
    }
    void *open = reserve(kit, stream, log, count);
    commit(kit, stream, reserve(kit, stream, log, count + 1));
    commit(kit, stream, looking, looking_closure);
    wait_until([&] { return log.runs == count; }, "the closures before one that is not committed");
    commit(kit, stream, open);
    stream.synchronize();
    if (!log.can_look) return kit.state("closures cannot look ahead");
    for (size_t i = 0; i < log.numbers.size(); ++i) {
      CHECK(i < behind.size());
      CHECK_EQUAL(log.storages[i], behind[i]);
      CHECK_EQUAL(log.numbers[i], static_cast<int>(i));
    }
    CHECK_EQUAL(log.runs.load(), count + 2);
    CHECK_EQUAL(log.destroys.load(), count + 2);
  }
}

TB_CASE(CLO, 16, needs, "closure_commit.4", "work of the driver's own ends what a closure sees, or is seen") {
  Block word(kit, 4);
  Stream stream(kit);
  Log log;
  void *looking = reserve(kit, stream, log);
  commit(kit, stream, reserve(kit, stream, log, 0));
  set_word(kit, stream, word.data(), 3);
  commit(kit, stream, reserve(kit, stream, log, 1));
  commit(kit, stream, looking, looking_closure);
  stream.synchronize();
  for (size_t i = 1; i < log.numbers.size(); ++i) CHECK(log.numbers[i - 1] != 0 || log.numbers[i] != 1);
  CHECK_EQUAL(log.runs.load(), 2);
}

} // namespace
} // namespace tb::contract::closure_lookahead_cases

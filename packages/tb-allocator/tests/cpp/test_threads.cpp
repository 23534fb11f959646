// test_threads.cpp -- several threads at once: allocate, free in another thread, record streams, run out of memory,
// empty the cache, read statistics; against a map of what is allocated. Run it under ThreadSanitizer.
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "fake_driver.h"
#include "heap/heap.h"

namespace {

struct Item {
  tb_block *block;
  char *pointer;
  uint64_t size;
  char mark;
};

// Passes blocks from one thread to another.
class Mailbox {
public:
  void put(Item item) {
    std::lock_guard guard(mutex_);
    items_.push_back(item);
  }
  bool take(Item *out) {
    std::lock_guard guard(mutex_);
    if (items_.empty()) return false;
    *out = items_.front();
    items_.pop_front();
    return true;
  }

private:
  std::mutex mutex_;
  std::deque<Item> items_;
};

// The allocated addresses.
class Shadow {
public:
  void allocated(const Item &item) {
    std::lock_guard guard(mutex_);
    auto after = ends_.lower_bound(item.pointer);
    CHECK(after == ends_.end() || item.pointer + item.size <= after->first);
    CHECK(after == ends_.begin() || std::prev(after)->second <= item.pointer);
    ends_.emplace_hint(after, item.pointer, item.pointer + item.size);
  }
  void freed(const Item &item) {
    std::lock_guard guard(mutex_);
    CHECK(ends_.erase(item.pointer) == 1);
  }

private:
  std::mutex mutex_;
  std::map<char *, char *> ends_;
};

enum class Kind { segments, pages, pinned };

std::unique_ptr<tb::allocator::Heap> make_heap(Kind kind) {
  tb::Driver driver{&fake::api, nullptr};
  if (kind == Kind::pinned)
    return std::make_unique<tb::allocator::Heap>(driver, std::make_unique<tb::allocator::HostSource>(driver),
                                                 tb::allocator::pinned_policy({}));
  tb::allocator::HeapPolicy policy;
  policy.growing = kind == Kind::pages;
  policy.total_memory = fake::world.capacity;
  return std::make_unique<tb::allocator::Heap>(driver, std::make_unique<tb::allocator::DeviceSource>(driver, 0),
                                               policy);
}

void run(Kind kind, int threads, int steps) {
  std::unique_ptr<tb::allocator::Heap> made = make_heap(kind);
  tb::allocator::Heap &heap = *made;
  std::vector<tb_stream *> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(fake::new_stream());
  std::vector<Mailbox> boxes(static_cast<size_t>(threads));
  std::atomic<int> failures{0};
  Shadow shadow;
  auto give_back = [&](const Item &item) {
    shadow.freed(item);
    CHECK(item.pointer[0] == item.mark && item.pointer[item.size - 1] == item.mark);
    heap.deallocate(item.block);
  };
  auto work = [&](int number) {
    std::mt19937_64 random(static_cast<uint64_t>(number) + 17);
    std::vector<Item> mine;
    for (int step = 0; step < steps; ++step) {
      tb_stream *stream = streams[random() % streams.size()];
      uint64_t choice = random() % 100;
      if (choice < 45) {
        Item item{nullptr, nullptr, random() % 4 ? 1 + random() % 50000 : 1 + random() % (12 << 20),
                  static_cast<char>(random())};
        void *pointer = nullptr;
        tb_status status = heap.allocate(item.size, kind == Kind::pinned ? nullptr : stream, &pointer, &item.block);
        if (status == TB_OUT_OF_MEMORY) {
          ++failures;
          for (const Item &one : mine) give_back(one);
          mine.clear();
          continue;
        }
        CHECK(status == TB_OK);
        item.pointer = static_cast<char *>(pointer);
        shadow.allocated(item);
        item.pointer[0] = item.pointer[item.size - 1] = item.mark;
        mine.push_back(item);
      } else if (choice < 70) {
        if (mine.empty()) continue;
        std::swap(mine[random() % mine.size()], mine.back());
        if (choice < 60)
          give_back(mine.back());
        else
          boxes[random() % boxes.size()].put(mine.back());
        mine.pop_back();
      } else if (choice < 80) {
        Item item;
        if (boxes[static_cast<size_t>(number)].take(&item)) give_back(item);
      } else if (choice < 88) {
        if (!mine.empty()) CHECK(heap.record_stream(mine[random() % mine.size()].block, stream) == TB_OK);
      } else if (choice < 92) {
        ++stream->queued;
      } else if (choice < 96) {
        uint64_t queued = stream->queued, done = stream->done;
        if (done < queued) stream->done.compare_exchange_strong(done, done + 1);
      } else if (choice < 99) {
        tb_allocator_statistics now{};
        heap.statistics(&now);
        CHECK(now.reserved_bytes[0].current >= now.active_bytes[0].current);
        if (!mine.empty()) CHECK(heap.find(mine.back().pointer) == mine.back().block);
      } else if (random() % 10 == 0) {
        CHECK(heap.empty_cache() == TB_OK);
      }
    }
    for (const Item &one : mine) give_back(one);
  };
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) all.emplace_back(work, number);
  for (std::thread &thread : all) thread.join();
  for (Mailbox &box : boxes)
    for (Item item; box.take(&item);) give_back(item);
  fake::complete_all();
  CHECK(heap.empty_cache() == TB_OK);
  tb_allocator_statistics end{};
  heap.statistics(&end);
  CHECK(end.active[0].current == 0 && end.reserved_bytes[0].current == 0 && end.segment[0].current == 0);
  CHECK(end.inactive_split[0].current == 0 && end.inactive_split_bytes[0].current == 0);
  CHECK(end.requested_bytes[0].current == 0);
  heap.shutdown();
  CHECK(fake::world.used == 0 && fake::world.events.empty() && fake::world.mapped.empty());
  fprintf(stderr, "threads, kind %d: %d out of memory\n", static_cast<int>(kind), failures.load());
  CHECK(failures > 0);
}

} // namespace

int main(int count, char **arguments) {
  fake::world.capacity = uint64_t{96} << 20;
  fake::install();
  int steps = count > 1 ? atoi(arguments[1]) : 2000;
  for (Kind kind : {Kind::segments, Kind::pages, Kind::pinned}) run(kind, 8, steps);
}

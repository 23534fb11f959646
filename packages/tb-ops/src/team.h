// The OpenMP team that a worker gives to a kernel.
//
// A team pays where the kernel is long: in less than about a millisecond its barriers, and waking its threads, cost more
// than they save, and most operators of a small model are that short. Some long ones are made
// of many short parts, as recurrent layers are, and lose by it too. How long a kernel takes is measured, on one thread
// and with a team, by kernel and amount of data; what was never measured runs on one thread. While the host still
// produces work it needs a processor itself, so that the team leaves it one; once a thread waits, the team takes them
// all. In a graph's launch nobody needs the others, and shorter kernels gain too.
#pragma once
#include <cstdint>

namespace tb {

// What the host does meanwhile: it queues work, it waits, or it has no part in the work, which is a graph's.
enum class Host { works, waits, absent };

class Team {
public:
  // Before a kernel, which is known by an address of its own. `threads`: of the thread that launched it.
  void start(const void *kernel, int threads, Host host);
  // What was started is one of many kernels with a common address: this one.
  void distinguish(const void *kernel);
  // Before a kernel whose result must not depend on time: sums over threads differ in the last bits with their number.
  void fix(int threads);
  // The kernel gets a tensor of so many elements. Outside of a kernel, on any thread, it does nothing.
  void add(int64_t elements) {
    if ((elements_ += elements) >= next_) [[unlikely]]
      look();
  }
  void finish();

private:
  struct Timing; // of one kernel
  void look();
  void set(int threads);

  Timing *timing_ = nullptr;
  int64_t elements_ = 0;          // of the running kernel
  int64_t next_ = INT64_MAX;      // elements at which to look again
  int64_t long_ = INT64_MAX;      // nanoseconds on one thread from which on a kernel gets a team
  int64_t started_ = 0;           // nanoseconds; 0: not measured
  int threads_ = 0, allowed_ = 1; // in force; for a long kernel
};

extern thread_local constinit Team team;

// While it lives, a matrix product inside a kernel's own parallel loop runs on the thread that asks for it, at once.
// MKL would give each a parallel region of one thread first, which takes as long as a small product.
class ProductsInLoops {
public:
  ProductsInLoops();
  ~ProductsInLoops();
  ProductsInLoops(const ProductsInLoops &) = delete;
  ProductsInLoops &operator=(const ProductsInLoops &) = delete;

private:
  int before_ = 0; // MKL's setting of the calling thread; its team's threads need none outside of loops
};

} // namespace tb

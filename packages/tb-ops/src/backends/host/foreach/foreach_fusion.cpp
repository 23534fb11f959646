// Decides which operations on lists run together, and divides them among threads.
#include "backends/host/foreach/foreach_fusion.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "intraop/thread_policy.h"

namespace tb::ops::host {
namespace {
std::atomic<int64_t> together{0};
} // namespace

int64_t fused_list_operations() { return together.load(std::memory_order_relaxed); }

bool apart(std::vector<MemoryRange> &ranges) {
  std::ranges::sort(ranges, {}, &MemoryRange::begin);
  const char *written_until = nullptr, *until = nullptr;
  for (const MemoryRange &range : ranges) {
    if (range.begin < written_until || (range.written && range.begin < until)) return false;
    until = std::max(until, range.end);
    if (range.written) written_until = std::max(written_until, range.end);
  }
  return true;
}

// Runs operations together, on the worker.
class FusedLists {
public:
  FusedLists(QueuedList &first, const tb_closure_context *context) : steps_{&first}, context_(context) {}

  static void call(void *self) { static_cast<FusedLists *>(self)->run(); }
  // The run failed, so the operations behind the first are not run; those of a graph are at its next launch.
  void give_back() {
    for (QueuedList *step : steps_) step->done_ = false;
  }

private:
  static constexpr size_t most = 16;               // operations; a wait for the first of them waits for all
  static constexpr int64_t piece = 8192;           // elements; the pieces of several lists fit in a core's cache
  static constexpr int64_t large = 8192;           // elements; threads share a tensor of this size or more
  static constexpr int64_t multiple = 256;         // of elements, so that kernels divide pieces as they do the whole
  static constexpr double nanoseconds_each = .15;  // per element, about
  static constexpr double nanoseconds_piece = 150; // per tensor, about

  const TensorDescriptors &lengths() const { return steps_[0]->lists[0]; }

  // Whether the operation may run piece by piece with the first.
  bool fits(const QueuedList &step) const {
    const TensorDescriptors &mine = lengths(), &theirs = step.lists[0];
    return step.settled && step.launch_context.flushes_denormals == steps_[0]->launch_context.flushes_denormals &&
           mine.size() == theirs.size() && mine[0].type() == theirs[0].type() &&
           std::ranges::equal(mine, theirs, {}, &TensorDescriptor::elements, &TensorDescriptor::elements);
  }

  void look_ahead() {
    constexpr size_t known = offsetof(tb_closure_context, next) + sizeof context_->next;
    if (!steps_[0]->settled || context_->struct_size < known || !context_->next) return;
    void *storage = nullptr;
    while (steps_.size() < most) {
      const tb_closure *kind = context_->next(context_, &storage);
      if (!kind || kind->run != &QueuedList::run) return;
      auto *step = static_cast<QueuedList *>(storage);
      if (!fits(*step)) return;
      steps_.push_back(step);
    }
  }

  // Whether tensors at different places of the lists share no memory that is written to. Tensors at one place may be
  // the same.
  bool places_apart() const {
    std::vector<MemoryRange> ranges;
    for (size_t place = 0; place < lengths().size(); place++) {
      const size_t first = ranges.size();
      const auto bytes = lengths()[place].elements() * static_cast<int64_t>(c10::elementSize(lengths()[place].type()));
      if (bytes == 0) continue;
      for (const QueuedList *step : steps_)
        for (const TensorDescriptors &list : step->lists) {
          const auto *begin = static_cast<const char *>(list[place].data());
          const bool written = &list == &step->lists[0];
          const auto known = std::find_if(ranges.begin() + static_cast<std::ptrdiff_t>(first), ranges.end(),
                                          [begin](const MemoryRange &range) { return range.begin == begin; });
          if (known != ranges.end())
            known->written |= written;
          else
            ranges.push_back({begin, begin + bytes, written});
        }
    }
    return apart(ranges);
  }

  void run() {
    look_ahead();
    if (steps_.size() > 1 && !places_apart()) steps_.resize(1);
    const auto steps = static_cast<int64_t>(steps_.size());
    for (int64_t i = 1; i < steps; i++) steps_[static_cast<size_t>(i)]->done_ = true;
    together.fetch_add(steps - 1, std::memory_order_relaxed);

    int64_t elements = 0;
    for (const TensorDescriptor &tensor : lengths()) elements += tensor.elements();
    const auto places = static_cast<int64_t>(lengths().size());
    intraop.count_elements(elements * steps);
    const double nanoseconds = static_cast<double>(steps) * (nanoseconds_each * static_cast<double>(elements) +
                                                             nanoseconds_piece * static_cast<double>(places));
    int64_t parts = intraop.parts(places + elements / large, nanoseconds);
    if (parts == 1) parts = intraop.threads();
    if (parts > 1 && steps == 1 && !places_apart()) parts = 1;
    intraop.share(parts, [this](int64_t part, int64_t of) { run(part, of); });
  }

  // Runs one thread's share: some of the small tensors, and the same part of every large one, which is in the thread's
  // cache after matrix products that were divided by rows.
  void run(int64_t part, int64_t of) const {
    c10::SmallVector<std::unique_ptr<Pieces>, most> pieces;
    for (const QueuedList *step : steps_) pieces.push_back(step->pieces());
    const int64_t longest = pieces.size() == 1 ? INT64_MAX : piece;
    for (size_t place = 0; place < lengths().size(); place++) {
      const int64_t elements = lengths()[place].elements();
      const bool cut = of > 1 && elements >= large;
      if (!cut && static_cast<int64_t>(place) % of != part) continue;
      int64_t begin = cut ? begin_of_part(part, of, elements, multiple) : 0;
      const int64_t end = cut ? begin_of_part(part + 1, of, elements, multiple) : elements;
      for (int64_t count; begin < end; begin += count) {
        count = std::min(longest, end - begin);
        for (const std::unique_ptr<Pieces> &one : pieces) one->run(place, begin, count);
      }
    }
  }

  c10::SmallVector<QueuedList *, most> steps_;
  const tb_closure_context *const context_;
};

tb_status QueuedList::run(void *storage, const tb_closure_context *context) {
  auto &self = *static_cast<QueuedList *>(storage);
  if (std::exchange(self.done_, false)) return TB_OK;
  FusedLists run(self, context);
  const tb_status status = run_closure(&FusedLists::call, reinterpret_cast<const void *>(&FusedLists::call), &run,
                                       ThreadInvariance::float32, self.launch_context, context);
  if (status != TB_OK) run.give_back();
  return status;
}

} // namespace tb::ops::host

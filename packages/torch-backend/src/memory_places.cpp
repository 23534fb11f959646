// memory_places.cpp -- see memory_places.h. Reading a place takes neither the GIL nor a lock of PyTorch's.
#include "memory_places.h"

#include <atomic>
#include <map>
#include <mutex>

#include "components.h"
#include "python_call_site.h"

namespace tb::backend {
namespace {

using Frames = std::vector<std::pair<uintptr_t, uintptr_t>>;

struct Places {
  std::mutex mutex;
  std::map<Frames, uint64_t> numbers;
  std::vector<const Frames *> by_number;
};
Places &places() {
  static auto &all = *new Places;
  return all;
}

std::atomic<RecordPlaces> recorded{RecordPlaces::none};

Frames current_frames() {
  constexpr size_t deepest = 40;
  Frames out;
  while (out.size() < deepest)
    for (const PythonCallSite::Frame &frame : current_call_site(out.size()).frames) {
      if (!frame.code) return out;
      out.emplace_back(frame.code, frame.instruction);
    }
  return out;
}

uint64_t find_place(int32_t frees) {
  if (frees && recorded.load(std::memory_order_relaxed) != RecordPlaces::all) return 0;
  try {
    Frames frames = current_frames();
    if (frames.empty()) return 0;
    Places &all = places();
    std::lock_guard lock(all.mutex);
    const auto [found, fresh] = all.numbers.try_emplace(std::move(frames), all.by_number.size() + 1);
    if (fresh) all.by_number.push_back(&found->first);
    return found->second;
  } catch (const std::bad_alloc &) {
    return 0;
  }
}

} // namespace

void record_places(RecordPlaces which) {
  recorded = which;
  components.allocator.set_place_finder(which == RecordPlaces::none ? nullptr : &find_place);
  if (which == RecordPlaces::none) return; // a snapshot may follow
  Places &all = places();
  std::lock_guard lock(all.mutex);
  all.by_number.clear();
  all.numbers.clear();
}

Frames frames_of_place(uint64_t number) {
  Places &all = places();
  std::lock_guard lock(all.mutex);
  return number && number <= all.by_number.size() ? *all.by_number[number - 1] : Frames();
}

} // namespace tb::backend

// The result layouts of one operator, by call.
//
// A call that was found again is part of what the program repeats, such as a step that will be captured: its layout is never
// evicted. Only layouts of calls that came once are evicted, the oldest first, and only if all layouts together would take
// more than `most_bytes`. If the others fill that, new layouts are not kept, and such calls wait each time.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "dispatch/layout_cache/call_key.h"
#include "dispatch/layout_cache/result_layout.h"

namespace tb::ops {

class LayoutCache {
public:
  static constexpr size_t most_bytes = size_t{16} << 20; // tens of thousands of layouts

  // NULL if it is unknown. Safe from any thread.
  std::shared_ptr<const CallLayout> find(const CallKey &key);
  void remember(const CallKey &key, CallLayout layout);

private:
  struct Entry {
    std::shared_ptr<const CallLayout> layout;
    size_t bytes;
    bool again; // it was found
  };
  void make_room(size_t bytes);

  std::mutex mutex_;
  std::unordered_map<CallKey, Entry, CallKeyHash> entries_;
  std::deque<const CallKey *> once_; // in the order in which they came; some were found since
  size_t bytes_ = 0;
};

} // namespace tb::ops

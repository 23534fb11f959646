// Caches the result layouts of one operator, by call.
//
// A call that was found again is part of what the program repeats, such as a step that will be captured, so its layout
// is never evicted. Layouts of calls that came once are evicted, the oldest first, if all layouts together would take
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

  // Returns the layout of the call, or NULL if it is unknown. Any thread may call this.
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
  std::deque<const CallKey *> once_; // in the order of their first calls; some were found again since
  size_t bytes_ = 0;
};

} // namespace tb::ops

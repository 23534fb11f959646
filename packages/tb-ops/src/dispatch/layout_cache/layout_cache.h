// The layouts that one operator has learned.
//
// A call whose layout came again is part of what the program does over and over, such as a step that will be captured: it
// stays for good. Only calls that came once leave, the oldest first, and only where all of them together would take more
// than `most_bytes`. Where those that stay fill that, new ones are not kept: such calls wait, as each did at first.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "dispatch/layout_cache/call_key.h"
#include "dispatch/layout_cache/result_layout.h"

namespace tb {

class Layouts {
public:
  static constexpr size_t most_bytes = size_t{16} << 20; // tens of thousands of layouts

  // Nothing where it is unknown.
  std::shared_ptr<const CallLayout> find(const CallKey &key);
  void remember(const CallKey &key, CallLayout layout);

private:
  struct Entry {
    std::shared_ptr<const CallLayout> layout;
    size_t bytes;
    bool again; // it came again
  };
  void make_room(size_t bytes);

  std::mutex mutex_;
  std::unordered_map<CallKey, Entry, CallKeyHash> entries_;
  std::deque<const CallKey *> once_; // in the order in which they came; some of them came again since
  size_t bytes_ = 0;
};

} // namespace tb

// The streams of a driver as a report of a failure sees them: how far each queue has grown.
//
// Apart from StreamList, whose lock is held while workers end: their work may wait for other streams, and report.
#pragma once

#include <mutex>
#include <unordered_set>
#include <vector>

#include "drivers/common/failure.h"

namespace tb::drivers::cpu {

class Stream;

class StreamTails final : public QueueTails {
public:
  void add(Stream &stream);
  void remove(Stream &stream) noexcept;
  std::vector<QueueTail> tails() override;

private:
  std::mutex mutex_;
  std::unordered_set<Stream *> streams_;
};

} // namespace tb::drivers::cpu

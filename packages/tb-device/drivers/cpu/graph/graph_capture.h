// A capture in progress: the streams that take part and the nodes so far.
//
// Begun on one stream, its origin; a stream that waits for an event recorded in the capture joins it. Who came after
// whom is kept as one count per stream, so that the end can tell whether the origin waited for every joined stream.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "drivers/cpu/graph/graph.h"

namespace tb::cpu {

class Capture : public std::enable_shared_from_this<Capture> {
public:
  // By stream, how many of its captured steps are behind.
  using Seen = std::map<const Stream *, uint64_t>;

  // Fails with a text when the stream captures already or is a default stream.
  static tb_status begin(Stream &stream);
  // Out of the way of begin and join races: false once the capture has ended, and then nothing was done.
  bool reserve(Stream &stream, uint64_t size, void **out, tb_status *status);
  // False: no open reserve of this capture.
  bool commit(const void *storage, const tb_closure *closure);
  bool cancel(const void *storage);
  bool record(Stream &stream, Seen *out);
  // `stream` waits for a record of this capture, and joins if it takes no part yet.
  tb_status join(Stream &stream, const Seen &seen);
  // Captured work waits for a record outside: each launch does.
  bool add_prerequisite(const Event::Point &point);
  tb_status end(Stream &stream, std::shared_ptr<NodeList> *out);

private:
  struct Member {
    Ref<Stream> stream;
    Seen seen; // its own steps included
  };
  explicit Capture(Stream &origin) : origin_(origin) {}
  std::vector<NodeList::Node>::iterator open_node(const void *storage);
  void add_member(Stream &stream);
  void finish() noexcept;

  Stream &origin_; // a member
  std::mutex mutex_;
  bool ended_ = false;
  std::map<const Stream *, Member> members_;
  std::shared_ptr<NodeList> nodes_ = std::make_shared<NodeList>();
};

// What an event recorded on a capturing stream stands for.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  Capture::Seen seen;
};

} // namespace tb::cpu

// A capture in progress: the streams that take part and the nodes so far.
//
// A capture begins on one stream, its origin; a stream that waits for an event recorded in the capture joins it. The
// order is kept as one count per stream, so that the end can check that the origin waited for every stream that joined.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "drivers/cpu/graph/graph.h"
#include "drivers/cpu/stream/capture.h"

namespace tb::drivers::cpu {

class GraphCapture final : public Capture, public std::enable_shared_from_this<GraphCapture> {
public:
  // Fails with a text when the stream captures already or is a default stream.
  static tb_status begin(Stream &stream);
  // Ends the capture of which `stream` is the origin. Fails with a text.
  static tb_status end(Stream &stream, std::shared_ptr<NodeList> *out);

  bool reserve(Stream &stream, uint64_t size, void **out, tb_status *status) override;
  bool commit(const void *storage, const tb_closure *closure) override;
  bool cancel(const void *storage) override;
  bool record(Stream &stream, Seen *out) override;
  tb_status join(Stream &stream, const Seen &seen) override;
  bool add_prerequisite(const Event::Point &point) override;

private:
  struct Member {
    Ref<Stream> stream;
    Seen seen; // its own steps included
  };
  explicit GraphCapture(Stream &origin) : origin_(origin) {}
  std::vector<NodeList::Node>::iterator open_node(const void *storage);
  void add_member(Stream &stream);
  void finish() noexcept;
  tb_status end_here(Stream &stream, std::shared_ptr<NodeList> *out);

  Stream &origin_; // a member
  std::mutex mutex_;
  bool ended_ = false;
  std::map<const Stream *, Member> members_;
  std::shared_ptr<NodeList> nodes_ = std::make_shared<NodeList>();
};

} // namespace tb::drivers::cpu

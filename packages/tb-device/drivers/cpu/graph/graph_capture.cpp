// Collects the work of streams into a graph.
#include "drivers/cpu/graph/graph_capture.h"

#include <algorithm>

#include "drivers/common/error_text.h"
#include "drivers/cpu/device/device.h"

namespace tb::drivers::cpu {

void GraphCapture::add_member(Stream &stream) {
  members_.emplace(&stream, Member{Ref<Stream>(&stream), {{&stream, 1}}}); // joining is a step
}

tb_status GraphCapture::begin(Stream &stream) {
  const tb_host *host = stream.device().host();
  if (stream.is_default())
    return fail(host, TB_FAILED_PRECONDITION, "a default stream cannot capture: use one of stream_create");
  std::shared_ptr<GraphCapture> capture(new GraphCapture(stream));
  capture->add_member(stream);
  if (stream.start_capture(capture)) return TB_OK;
  return fail(host, TB_FAILED_PRECONDITION, "the stream captures already: capture_end comes first");
}

bool GraphCapture::reserve(Stream &stream, uint64_t size, void **out, tb_status *status) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  const uint64_t whole = (std::max<uint64_t>(size, 1) + TB_CLOSURE_ALIGNMENT - 1) & ~uint64_t(TB_CLOSURE_ALIGNMENT - 1);
  NodeList::Node node{{}, nullptr, stream.device().number()};
  node.storage.reset(std::aligned_alloc(TB_CLOSURE_ALIGNMENT, whole));
  if (!node.storage) {
    *status =
        fail(stream.device().host(), TB_OUT_OF_MEMORY, "no host memory for captured work of %s", ByteText(size).text);
    return true;
  }
  *out = node.storage.get();
  nodes_->nodes.push_back(std::move(node));
  ++members_.at(&stream).seen[&stream];
  *status = TB_OK;
  return true;
}

std::vector<NodeList::Node>::iterator GraphCapture::open_node(const void *storage) {
  // Most often the last one.
  const auto found = std::find_if(nodes_->nodes.rbegin(), nodes_->nodes.rend(),
                                  [&](const NodeList::Node &node) { return node.storage.get() == storage; });
  return found == nodes_->nodes.rend() || found->closure ? nodes_->nodes.end() : std::prev(found.base());
}

bool GraphCapture::commit(const void *storage, const tb_closure *closure) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  const auto node = open_node(storage);
  if (node == nodes_->nodes.end()) return false;
  node->closure = closure;
  return true;
}

bool GraphCapture::cancel(const void *storage) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  const auto node = open_node(storage);
  if (node == nodes_->nodes.end()) return false;
  nodes_->nodes.erase(node);
  return true;
}

bool GraphCapture::record(Stream &stream, Seen *out) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  *out = members_.at(&stream).seen;
  return true;
}

tb_status GraphCapture::join(Stream &stream, const Seen &seen) {
  const tb_host *host = stream.device().host();
  std::lock_guard lock(mutex_);
  if (ended_)
    return fail(host, TB_FAILED_PRECONDITION,
                "the event was recorded in a capture that has ended: record it again to wait for it");
  if (!members_.contains(&stream)) {
    if (stream.is_default())
      return fail(host, TB_FAILED_PRECONDITION,
                  "a default stream cannot wait for an event of a capture, as it would join it: use one of "
                  "stream_create");
    add_member(stream);
    if (!stream.start_capture(shared_from_this())) {
      members_.erase(&stream);
      return fail(host, TB_FAILED_PRECONDITION,
                  "the stream takes part in a capture and cannot wait for an event of another one");
    }
  }
  Seen &mine = members_.at(&stream).seen;
  for (const auto &[other, count] : seen) mine[other] = std::max(mine[other], count);
  return TB_OK;
}

bool GraphCapture::add_prerequisite(const Event::Point &point) {
  std::lock_guard lock(mutex_);
  if (ended_) return false;
  nodes_->prerequisites.push_back(point);
  return true;
}

void GraphCapture::finish() noexcept {
  ended_ = true;
  for (auto &[key, member] : members_) member.stream->stop_capture();
  members_.clear();
}

tb_status GraphCapture::end(Stream &stream, std::shared_ptr<NodeList> *out) {
  // begin() makes every capture that a stream has.
  const auto capture = std::static_pointer_cast<GraphCapture>(stream.capture());
  if (capture) return capture->end_here(stream, out);
  return fail(stream.device().host(), TB_FAILED_PRECONDITION, "the stream does not capture: capture_begin comes first");
}

tb_status GraphCapture::end_here(Stream &stream, std::shared_ptr<NodeList> *out) {
  const tb_host *host = stream.device().host();
  std::shared_ptr<NodeList> dropped; // its closures are destroyed after the lock
  std::lock_guard lock(mutex_);
  if (ended_ || &stream != &origin_)
    return fail(host, TB_FAILED_PRECONDITION, "the stream only joined: capture_end is for the stream that began");
  for (const NodeList::Node &node : nodes_->nodes)
    if (!node.closure)
      return fail(host, TB_FAILED_PRECONDITION,
                  "a closure_reserve of the capture is still open: commit or cancel it, then end the capture");
  const Seen &seen = members_.at(&stream).seen;
  for (const auto &[key, member] : members_) {
    const auto waited = seen.find(key);
    if (waited != seen.end() && waited->second >= member.seen.at(key)) continue;
    dropped = std::move(nodes_);
    finish();
    return fail(host, TB_FAILED_PRECONDITION,
                "a stream that joined the capture was not waited for, and the capture is dropped: record an event on "
                "it after its last work, and let the first stream wait for that before capture_end");
  }
  *out = std::move(nodes_);
  finish();
  return TB_OK;
}

} // namespace tb::drivers::cpu

#include "graph/capture.h"

#include <algorithm>

#include "opencl/failure.h"

namespace tb::opencl {

struct Capture {
  struct Member {
    tb_stream *stream; // null once it is destroyed
    Seen seen;         // its own steps included
  };

  explicit Capture(tb_stream *origin) : origin(origin) { nodes->device = origin->device; }

  void add_member(tb_stream *stream, std::shared_ptr<Capture> self) {
    members[stream] = {stream, {{stream, 1}}}; // joining is a step
    stream->capture = std::move(self);
    stream->captures = true;
  }

  // Whether the origin waited for all that other streams did.
  bool is_joined() const {
    const Seen &seen = members.at(origin).seen;
    return std::all_of(members.begin(), members.end(), [&](const auto &each) {
      const auto waited = seen.find(each.first);
      return waited != seen.end() && waited->second >= each.second.seen.at(each.first);
    });
  }

  // The streams queue work as before.
  void finish() {
    ended = true;
    for (auto &[key, member] : members)
      if (member.stream) {
        member.stream->captures = false;
        if (member.stream != origin) member.stream->capture.reset();
      }
    origin->capture.reset(); // which may be the last reference
  }

  tb_stream *const origin;
  bool ended = false;
  std::map<const tb_stream *, Member> members;
  std::shared_ptr<NodeList> nodes = std::make_shared<NodeList>();
};

tb_status Captures::begin(tb_stream *stream) {
  if (stream->borrowed)
    return fail(host_, TB_FAILED_PRECONDITION, 0, "a default stream cannot capture: use one of stream_create");
  const std::lock_guard lock(mutex_);
  if (stream->capture)
    return fail(host_, TB_FAILED_PRECONDITION, 0, "the stream captures already: capture_end comes first");
  const auto capture = std::make_shared<Capture>(stream);
  capture->add_member(stream, capture);
  return TB_OK;
}

tb_status Captures::end(tb_stream *stream, std::shared_ptr<NodeList> *out) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return fail(host_, TB_FAILED_PRECONDITION, 0, "the stream does not capture: capture_begin comes first");
  if (stream != capture->origin)
    return fail(host_, TB_FAILED_PRECONDITION, 0, "the stream only joined: capture_end is for the stream that began");
  const bool joined = capture->is_joined();
  capture->finish();
  if (!joined)
    return fail(host_, TB_FAILED_PRECONDITION, 0,
                "a stream that joined the capture was not waited for, and the capture is dropped: record an event on "
                "it after its last work, and let the first stream wait for that before capture_end");
  *out = capture->nodes;
  return TB_OK;
}

tb_status Captures::check_wait(const tb_stream *stream) const {
  if (!stream->captures) return TB_OK;
  return fail(host_, TB_FAILED_PRECONDITION, 0,
              "a stream captures, so there is nothing to wait for: query or wait after capture_end");
}

bool Captures::add(tb_stream *stream, Node &&node) {
  if (!stream->captures) return false;
  const std::lock_guard lock(mutex_);
  if (!stream->capture) return false;
  stream->capture->nodes->nodes.push_back(std::move(node));
  ++stream->capture->members.at(stream).seen[stream];
  return true;
}

CapturedPoint Captures::point(const tb_stream *stream) {
  if (!stream->captures) return {};
  const std::lock_guard lock(mutex_);
  if (!stream->capture) return {};
  return {stream->capture, stream->capture->members.at(stream).seen};
}

tb_status Captures::join(tb_stream *stream, const CapturedPoint &point) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Capture> &capture = point.capture;
  if (capture->ended)
    return fail(host_, TB_FAILED_PRECONDITION, 0,
                "the event was recorded in a capture that has ended: record it again to wait for it");
  if (stream->capture && stream->capture != capture)
    return fail(host_, TB_FAILED_PRECONDITION, 0,
                "the stream takes part in a capture and cannot wait for an event of another one");
  if (!stream->capture && stream->borrowed)
    return fail(host_, TB_FAILED_PRECONDITION, 0,
                "a default stream cannot wait for an event of a capture, as it would join it: use one of "
                "stream_create");
  if (stream->device != capture->origin->device)
    return fail(host_, TB_UNSUPPORTED, 0,
                "a stream of device %d cannot join a capture of device %d: OpenCL records the commands of one device",
                stream->device, capture->origin->device);
  if (!stream->capture) capture->add_member(stream, capture);
  Seen &mine = capture->members.at(stream).seen;
  for (const auto &[other, count] : point.seen) mine[other] = std::max(mine[other], count);
  return TB_OK;
}

bool Captures::add_prerequisite(tb_stream *stream, const Point &point) {
  if (!stream->captures) return false;
  const std::lock_guard lock(mutex_);
  if (!stream->capture) return false;
  stream->capture->nodes->prerequisites.push_back(point);
  return true;
}

void Captures::leave(tb_stream *stream) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return;
  if (stream == capture->origin) return capture->finish();
  capture->members.at(stream).stream = nullptr;
  stream->captures = false;
  stream->capture.reset();
}

} // namespace tb::opencl

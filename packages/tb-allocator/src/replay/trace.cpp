// trace.cpp -- parses the text of a trace.
#include "replay/trace.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <unordered_map>

namespace tb::allocator {
namespace {

class Parser {
public:
  Trace parse(std::string_view text) {
    while (!text.empty()) {
      size_t end = text.find('\n');
      rest_ = text.substr(0, end);
      text = end == std::string_view::npos ? "" : text.substr(end + 1);
      ++line_;
      if (rest_.ends_with('\r')) rest_.remove_suffix(1);
      if (!rest_.empty() && rest_.front() != '#') event();
    }
    return std::move(trace_);
  }

private:
  struct Block {
    uint32_t slot;
    uint64_t bytes;
  };

  [[noreturn]] void wrong(const std::string &what) const {
    throw std::invalid_argument("line " + std::to_string(line_) + " of the trace: " + what);
  }

  uint64_t number(const char *name, uint64_t limit) {
    size_t begin = rest_.find_first_not_of(' ');
    rest_ = begin == std::string_view::npos ? "" : rest_.substr(begin);
    uint64_t value = 0;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || value > limit) wrong(std::string("a number is expected for ") + name);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  uint32_t stream() {
    auto value = static_cast<uint32_t>(number("STREAM", 65535));
    trace_.streams = std::max(trace_.streams, value + 1);
    return value;
  }

  std::unordered_map<uint64_t, Block>::iterator block(uint64_t id) {
    auto found = blocks_.find(id);
    if (found == blocks_.end()) wrong("block " + std::to_string(id) + " is not allocated here");
    return found;
  }

  void event() {
    char kind = rest_.front();
    rest_.remove_prefix(1);
    uint64_t id = number("ID", UINT64_MAX);
    if (kind == 'a') {
      if (blocks_.count(id)) wrong("block " + std::to_string(id) + " is allocated already");
      uint64_t bytes = number("BYTES", uint64_t{1} << 48);
      uint32_t slot = free_.empty() ? trace_.slots++ : free_.back();
      if (!free_.empty()) free_.pop_back();
      blocks_[id] = {slot, bytes};
      bytes_ += bytes;
      trace_.peak_live = std::max(trace_.peak_live, bytes_);
      trace_.events.push_back({TraceEvent::allocate, slot, stream(), bytes});
    } else if (kind == 'f') {
      auto found = block(id);
      bytes_ -= found->second.bytes;
      free_.push_back(found->second.slot);
      trace_.events.push_back({TraceEvent::free, found->second.slot, 0, 0});
      blocks_.erase(found);
    } else if (kind == 'r') {
      uint32_t slot = block(id)->second.slot;
      trace_.events.push_back({TraceEvent::record, slot, stream(), 0});
    } else {
      wrong(std::string("starts with '") + kind + "', but lines start with a, f, r or #");
    }
  }

  Trace trace_;
  std::string_view rest_;
  uint64_t line_ = 0, bytes_ = 0;
  std::unordered_map<uint64_t, Block> blocks_;
  std::vector<uint32_t> free_;
};

} // namespace

Trace parse_trace(std::string_view text) { return Parser().parse(text); }

} // namespace tb::allocator

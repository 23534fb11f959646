// Writes and reads the text of an order.
#include "drivers/sim/schedule/order_log.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tb::drivers::sim {

namespace {

constexpr std::string_view cut = "...";

template <class Number> bool take_number(std::string_view *text, Number *out) {
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), *out);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(rest - text->data()));
  return true;
}

} // namespace

void OrderLog::add(uint64_t call, uint32_t stream) {
  if (!runs_.empty() && runs_.back().call == call && runs_.back().stream == stream) {
    ++runs_.back().count;
  } else if (runs_.size() < most_entries) {
    runs_.push_back({call, stream, 1});
  } else {
    cut_ = true;
  }
}

std::string OrderLog::text() const {
  std::string text;
  uint64_t call = 0;
  for (const Run &run : runs_) {
    if (!text.empty()) text += ' ';
    if (run.call > call) text += '+' + std::to_string(run.call - call) + ' ';
    call = run.call;
    text += std::to_string(run.stream);
    if (run.count > 1) text += 'x' + std::to_string(run.count);
  }
  if (cut_) text.append(" ").append(cut);
  return text;
}

bool OrderLog::parse(const std::string &whole, std::vector<Run> *out) {
  std::string_view text = whole;
  uint64_t call = 0;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n\t"), text.size()));
    if (text.empty() || text == cut) return true;
    if (text[0] == '+') {
      text.remove_prefix(1);
      uint64_t calls;
      if (!take_number(&text, &calls)) return false;
      call += calls;
    } else {
      Run run = {call, 0, 1};
      if (!take_number(&text, &run.stream)) return false;
      if (!text.empty() && text[0] == 'x') {
        text.remove_prefix(1);
        if (!take_number(&text, &run.count) || run.count == 0) return false;
      }
      out->push_back(run);
    }
    if (!text.empty() && text.find_first_of(" \n\t") != 0) return false;
  }
}

} // namespace tb::drivers::sim

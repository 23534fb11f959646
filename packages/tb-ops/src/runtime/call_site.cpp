// Finding the interpreter's frames, and reading them.
#include "runtime/call_site.h"

#include <Python.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace tb {

FrameOffsets frame_offsets;
bool frames_known = false;

namespace {

// 3.14 marks references in the two low bits.
constexpr uintptr_t marks = 3;

// No operator's text has these.
constexpr char opening[] = "\x02launched ", closing = '\x03';

PlaceFinder place_finder = nullptr;

uintptr_t load(uintptr_t address) {
  uintptr_t value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof value);
  return value;
}

} // namespace

Caller caller() noexcept {
  Caller found;
  if (!frames_known) return found;
  const auto state = reinterpret_cast<uintptr_t>(PyGILState_GetThisThreadState());
  if (!state) return found;
  const FrameOffsets &at = frame_offsets;
  uintptr_t frame = load(state + static_cast<uintptr_t>(at.state));
  if (at.indirect >= 0) frame = load(frame + static_cast<uintptr_t>(at.indirect));
  for (size_t i = 0; i < Caller::depth && frame; i++) {
    found.frames[i] = {load(frame + static_cast<uintptr_t>(at.code)) & ~marks,
                       load(frame + static_cast<uintptr_t>(at.instruction))};
    frame = load(frame + static_cast<uintptr_t>(at.previous));
  }
  return found;
}

std::string marked(const Caller &caller) {
  std::ostringstream text;
  text << opening << std::hex;
  for (const Caller::Frame &frame : caller.frames)
    if (frame.code) text << frame.code << ' ' << frame.instruction << ' ';
  text << closing;
  return text.str();
}

void set_place_finder(PlaceFinder finder) { place_finder = finder; }

void replace_mark(char *text, uint64_t size) {
  char *begin = std::strstr(text, opening);
  if (!begin) return;
  char *end = std::strchr(begin, closing);
  if (!end) return;
  std::istringstream numbers(std::string(begin + sizeof opening - 1, end));
  std::vector<Caller::Frame> frames;
  for (Caller::Frame frame; numbers >> std::hex >> frame.code >> frame.instruction;) frames.push_back(frame);
  std::string place = place_finder && !frames.empty() ? place_finder(frames) : "";
  if (!place.empty()) place = "launched at " + place + ": ";
  const std::string whole = std::string(text, begin) + place + (end + 1);
  const size_t length = std::min<size_t>(whole.size(), size - 1);
  std::memcpy(text, whole.data(), length);
  text[length] = 0;
}

} // namespace tb

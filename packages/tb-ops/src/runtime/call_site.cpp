// Reads the interpreter's frames.
#include "runtime/call_site.h"

#include <Python.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace tb::ops {

FrameOffsets frame_offsets;
bool frames_known = false;

namespace {

// 3.14 marks references in the two low bits.
constexpr uintptr_t marks = 3;

// No operator's text has these.
constexpr char opening[] = "\x02launched ", closing = '\x03';

CallSiteNamer call_site_namer = nullptr;
std::atomic<Origin (*)()> origin_finder{nullptr};

uintptr_t load(uintptr_t address) {
  uintptr_t value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof value);
  return value;
}

} // namespace

PythonCallSite current_call_site() noexcept {
  PythonCallSite found;
  if (!frames_known) return found;
  const auto state = reinterpret_cast<uintptr_t>(PyGILState_GetThisThreadState());
  if (!state) return found;
  const FrameOffsets &at = frame_offsets;
  uintptr_t frame = load(state + static_cast<uintptr_t>(at.state));
  if (at.indirect >= 0) frame = load(frame + static_cast<uintptr_t>(at.indirect));
  for (size_t i = 0; i < PythonCallSite::depth && frame; i++) {
    found.frames[i] = {load(frame + static_cast<uintptr_t>(at.code)) & ~marks,
                       load(frame + static_cast<uintptr_t>(at.instruction))};
    frame = load(frame + static_cast<uintptr_t>(at.previous));
  }
  return found;
}

std::string encode_call_site(const PythonCallSite &site) {
  std::ostringstream text;
  text << opening << std::hex;
  for (const PythonCallSite::Frame &frame : site.frames)
    if (frame.code) text << frame.code << ' ' << frame.instruction << ' ';
  text << closing;
  return text.str();
}

void set_call_site_namer(CallSiteNamer namer) { call_site_namer = namer; }

void decode_call_site(char *text, uint64_t size) {
  char *begin = std::strstr(text, opening);
  if (!begin) return;
  char *end = std::strchr(begin, closing);
  if (!end) return;
  std::istringstream numbers(std::string(begin + sizeof opening - 1, end));
  std::vector<PythonCallSite::Frame> frames;
  for (PythonCallSite::Frame frame; numbers >> std::hex >> frame.code >> frame.instruction;) frames.push_back(frame);
  std::string place = call_site_namer && !frames.empty() ? call_site_namer(frames) : "";
  if (!place.empty()) place = "launched at " + place + ": ";
  const std::string whole = std::string(text, begin) + place + (end + 1);
  const size_t length = std::min<size_t>(whole.size(), size - 1);
  std::memcpy(text, whole.data(), length);
  text[length] = 0;
}

void set_origin_finder(Origin (*find)()) { origin_finder = find; }

Origin find_origin() {
  Origin (*find)() = origin_finder;
  return find ? find() : Origin();
}

} // namespace tb::ops

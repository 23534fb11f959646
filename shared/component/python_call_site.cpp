// Reads the interpreter's frames.
#include "python_call_site.h"

#include <Python.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace tb {

FrameOffsets frame_offsets;
bool frames_known = false;

namespace {

// 3.14 marks references in the two low bits.
constexpr uintptr_t marks = 3;

uintptr_t load(uintptr_t address) {
  uintptr_t value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof value);
  return value;
}

} // namespace

PythonCallSite current_call_site(size_t further) noexcept {
  PythonCallSite found;
  if (!frames_known) return found;
  const auto state = reinterpret_cast<uintptr_t>(PyGILState_GetThisThreadState());
  if (!state) return found;
  const FrameOffsets &at = frame_offsets;
  uintptr_t frame = load(state + static_cast<uintptr_t>(at.state));
  if (at.indirect >= 0) frame = load(frame + static_cast<uintptr_t>(at.indirect));
  for (size_t i = 0; i < PythonCallSite::depth + further && frame; i++) {
    if (i >= PythonCallSite::depth) std::shift_left(found.frames.begin(), found.frames.end(), 1);
    found.frames[std::min(i, PythonCallSite::depth - 1)] = {load(frame + static_cast<uintptr_t>(at.code)) & ~marks,
                                                            load(frame + static_cast<uintptr_t>(at.instruction))};
    frame = load(frame + static_cast<uintptr_t>(at.previous));
  }
  return found;
}

std::string encode_call_site(const PythonCallSite &site) {
  if (!site.frames[0].code) return "";
  std::ostringstream text;
  text << call_site_opening << std::hex;
  for (const PythonCallSite::Frame &frame : site.frames)
    if (frame.code) text << frame.code << ' ' << frame.instruction << ' ';
  text << call_site_closing;
  return text.str();
}

} // namespace tb

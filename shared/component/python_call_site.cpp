// Reads the interpreter's frames.
#include "python_call_site.h"

#include <Python.h>

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

PythonCallSite current_call_site(size_t skipped) noexcept {
  PythonCallSite found;
  if (!frames_known) return found;
  const auto state = reinterpret_cast<uintptr_t>(PyGILState_GetThisThreadState());
  if (!state) return found;
  const FrameOffsets &at = frame_offsets;
  uintptr_t frame = load(state + static_cast<uintptr_t>(at.state));
  if (at.indirect >= 0) frame = load(frame + static_cast<uintptr_t>(at.indirect));
  for (; skipped && frame; skipped--) frame = load(frame + static_cast<uintptr_t>(at.previous));
  for (size_t i = 0; i < PythonCallSite::depth && frame; i++) {
    found.frames[i] = {load(frame + static_cast<uintptr_t>(at.code)) & ~marks,
                       load(frame + static_cast<uintptr_t>(at.instruction))};
    frame = load(frame + static_cast<uintptr_t>(at.previous));
  }
  return found;
}

std::string encode_call_site(const PythonCallSite &site, const PythonCallSite &further) {
  if (!site.frames[0].code) return "";
  std::ostringstream text;
  text << call_site_opening << std::hex;
  for (const auto &frames : {site.frames, further.frames})
    for (const PythonCallSite::Frame &frame : frames)
      if (frame.code) text << frame.code << ' ' << frame.instruction << ' ';
  text << call_site_closing;
  return text.str();
}

} // namespace tb

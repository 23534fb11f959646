// Where Python was when work was launched, so that a failure which is raised later can name the line.
//
// A launch records its place in nanoseconds and without Python's lock. CPython has no interface for this: its own needs
// the lock and an object for every frame. Its interpreter keeps the running frames of a thread in a list that this thread
// may read. The offsets in that list differ between versions. They are found at import by a comparison with Python's own
// frame objects (tb_ops/_frames.py); nothing is recorded where none fit.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tb {

// The innermost frames: the addresses of their code and of the instruction in it; 0 beyond the last one.
struct PythonCallSite {
  static constexpr size_t depth = 5;
  struct Frame {
    uintptr_t code, instruction;
  };
  std::array<Frame, depth> frames{};
};

struct FrameOffsets {
  ptrdiff_t state = -1;    // of the pointer in the thread's state: to the frame or, if `indirect` >= 0, to a struct
  ptrdiff_t indirect = -1; // that has the frame there
  ptrdiff_t code = -1, instruction = -1, previous = -1; // in a frame
};
// Each extension that records call sites has these of its own.
extern FrameOffsets frame_offsets;
extern bool frames_known;

// The calling thread's place, without the `skipped` innermost frames. Empty on threads without Python code, such as
// autograd's.
PythonCallSite current_call_site(size_t skipped = 0) noexcept;

// What stands around a call site in a text. No operator's text has these.
inline constexpr char call_site_opening[] = "\x02launched ", call_site_closing = '\x03';
// The text that stands for a call site in an error until tb-ops decodes it, on a thread with Python's lock; "" for none.
// `further`: the frames outside of those of `site`, for functions that PyTorch wraps several times.
std::string encode_call_site(const PythonCallSite &site, const PythonCallSite &further = {});

} // namespace tb

// Where Python was when work was launched, noted in nanoseconds and without Python's lock, so that a failure which is
// told late can name the line.
//
// CPython has no interface for this: its own needs the lock and an object for every frame. Its interpreter keeps the
// running frames of a thread in a list that this thread may read. The offsets in that list differ between versions, so
// they are found at import by comparing with what Python's own frame objects say, and nothing is noted where none fit.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tb {

// The innermost frames, as addresses of their code and of the instruction in it; 0 where there are no more.
struct Caller {
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
extern FrameOffsets frame_offsets;
extern bool frames_known;

// This thread's position; empty on threads without Python code, such as autograd's.
Caller caller() noexcept;

// A position as it stands in an error's text until somebody with Python's lock puts the line in its place.
std::string marked(const Caller &caller);
// Replaces it in a text of `size` bytes. `find_place(frames)` gives the line, or nothing.
using PlaceFinder = std::string (*)(const std::vector<Caller::Frame> &frames);
void set_place_finder(PlaceFinder finder);
void replace_mark(char *text, uint64_t size);

} // namespace tb
